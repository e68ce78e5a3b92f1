"""The run directory: written, read and rendered."""
