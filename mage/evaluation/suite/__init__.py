"""Evaluation of an agent on splits: trials with and without memory, metrics, references, reports and tables."""
