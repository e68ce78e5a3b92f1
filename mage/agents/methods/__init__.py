"""Prompting methods: agents whose weights do not change, as baselines for training."""
