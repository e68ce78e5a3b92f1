"""How games read. One small file per game; games without one get OpenSpiel's own strings."""
