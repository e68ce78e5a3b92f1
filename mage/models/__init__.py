"""Models: a tiny one of our own, and any causal language model in Hugging Face layout."""

SMOLLM2 = "SmolLM2-135M-Instruct, dequantised from 4-bit (Q4_1)"
"""What the model `smollm2` is, in cards and tables."""
