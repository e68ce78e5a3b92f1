"""Judging: figures with intervals, and exact references."""
