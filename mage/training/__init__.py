"""Training runs: the loop, its parts, checkpoints, resume, sweeps and leagues."""
