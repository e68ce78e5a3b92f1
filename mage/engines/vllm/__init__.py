"""vLLM as an engine: in this process, or a server on this machine that is asked over HTTP."""
