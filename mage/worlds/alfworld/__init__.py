"""ALFWorld: household tasks in text, with an engine of its own, games made or read from files, and players."""
