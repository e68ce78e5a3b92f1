"""The in-process engine: continuous batching, prefix reuse, CUDA graphs and LoRA adapters."""
