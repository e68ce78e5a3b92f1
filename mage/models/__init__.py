"""Models: a tiny one of our own, and any causal language model in Hugging Face layout."""
