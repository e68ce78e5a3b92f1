"""Leagues: members, pay-offs, samplers, matches, exploration, eviction and reports."""
