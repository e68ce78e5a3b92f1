"""What a task is worth before any training: whether it needs memory or exploration, and what objectives find."""
