"""Shipped splits as JSON files. `python -m mage.splits` writes them again from their definitions."""
