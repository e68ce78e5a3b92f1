"""Leagues: members, pay-offs, samplers, matches, exploration and reports."""
