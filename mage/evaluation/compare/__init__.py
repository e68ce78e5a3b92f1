"""Comparison of methods: tables, significance, cost and plots over runs, sweeps and reports."""
