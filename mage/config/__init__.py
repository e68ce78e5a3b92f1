"""Configuration: the keys of a recipe, how recipes are read, composed and overridden."""
