"""Learners: samples become gradients and updated weights."""
