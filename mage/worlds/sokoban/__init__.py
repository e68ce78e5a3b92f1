"""Sokoban: rooms, their rules, generator, solver and players."""
