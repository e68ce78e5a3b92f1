"""Inference engines: token ids in, sampled token ids out."""
