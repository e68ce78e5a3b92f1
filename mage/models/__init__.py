"""Models: the tiny `nano`, `smollm2`, and any causal language model in Hugging Face layout."""

SMOLLM2 = "SmolLM2-135M-Instruct, dequantised from 4-bit (Q4_1)"
"""Description of the model `smollm2` in model cards and tables."""
