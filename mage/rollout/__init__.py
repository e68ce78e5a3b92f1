"""Rollout: play episodes, trials and groups of trials concurrently."""
