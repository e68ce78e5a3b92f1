"""Train language-model agents that learn while they play."""

__version__ = "0.1.0"
