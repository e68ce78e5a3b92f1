"""What the command line does: each command's work and how it looks in a terminal."""
