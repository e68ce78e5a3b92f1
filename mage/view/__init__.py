"""The viewer: a small web server that shows run directories and lets a person play in the browser."""
