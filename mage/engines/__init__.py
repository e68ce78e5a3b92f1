"""Engines: tokens in, tokens out."""
