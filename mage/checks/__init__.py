"""Contracts as checks: what any game, player, engine or codec must pass."""
