"""The only code that touches vLLM's internals, and that knows which vLLM it was written for."""
