"""Contract checks for worlds, players, agents, engines, chat formats and estimators."""
