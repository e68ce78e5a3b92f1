"""Playing in the browser: sessions, seats and the endpoints that act."""
