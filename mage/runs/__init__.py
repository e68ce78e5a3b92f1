"""The run directory: writing, reading and rendering."""
