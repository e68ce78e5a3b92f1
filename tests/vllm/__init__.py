"""Tests with vLLM, which is an environment of its own: make test-vllm."""
