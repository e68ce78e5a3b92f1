"""Evaluation of an agent on splits: trials with and without memory, metrics, reports and tables."""
