"""The texts of games: one small file per game; games without one get OpenSpiel's own strings."""
