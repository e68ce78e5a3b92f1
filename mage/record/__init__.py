"""The run directory: what is written down, and how it is read."""
