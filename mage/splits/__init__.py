"""Shipped splits as JSON files, written by `python -m mage.splits`."""
