"""Worlds: what is played. A world turns a task into environments and opponents."""
