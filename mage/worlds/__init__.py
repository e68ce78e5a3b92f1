"""Worlds: a world turns a task into environments and opponents."""
