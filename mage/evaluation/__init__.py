"""Evaluation: splits, suites, exact references, exploitability and comparison."""
