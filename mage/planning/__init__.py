"""Memory and speed of a recipe on a number of cards, before anything is loaded: from shapes and measured constants."""
