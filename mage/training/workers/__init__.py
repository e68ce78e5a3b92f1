"""Workers: processes with a world and an engine each, run by Ray, that play the trials of training."""
