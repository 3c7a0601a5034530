"""vLLM's real scheduler and KV-cache manager without a model."""
