"""The embedded decision model: a tiny Gated-DeltaNet hybrid that any machine can rebuild, byte for byte.

`embedded_model()` returns the folder of the model, building it once; `serve_settings()` returns the
environment and the `vllm serve` flags it needs.  Nothing here imports vLLM or torch, and nothing needs a
network.
"""

from radixflow.models.serving import ServeSettings, serve_settings
from radixflow.models.shape import ModelShape
from radixflow.models.store import ModelStoreError, embedded_model, home

__all__ = ["ModelShape", "ModelStoreError", "ServeSettings", "embedded_model", "home", "serve_settings"]
