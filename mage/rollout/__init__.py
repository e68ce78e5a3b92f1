"""Playing: episodes, trials and groups, many at a time."""
