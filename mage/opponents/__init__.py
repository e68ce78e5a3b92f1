"""Opponents: scripts, procedural families, search, solvers, remote models and a person."""
