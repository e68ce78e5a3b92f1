"""Looking at runs in a browser: a small server that reads run directories, and a table to play at."""
