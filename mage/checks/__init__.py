"""Contract checks for worlds, players, agents, engines, policy servers, learners, chat formats and estimators."""
