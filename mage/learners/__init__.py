"""Learners: update the weights from samples."""
