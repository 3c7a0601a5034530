"""What the endpoint uses of vLLM and of tokenizers, which ship no types that a checker could read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Tokenizer(Protocol):
    """A Hugging Face tokenizer."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return ids."""

    def decode(self, ids: list[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """Return text."""

    def get_added_vocab(self) -> dict[str, int]:
        """Return added tokens by text."""

    def apply_chat_template(self, conversation: list[dict[str, str]], **variables: object) -> object:
        """Return a prompt's text."""


class Output(Protocol):
    """A ``RequestOutput`` or ``PoolingRequestOutput``."""

    finished: bool
    num_cached_tokens: int | None
    prompt_token_ids: Sequence[int]
    outputs: Any
    """A list of completions, or what was pooled."""


class OutputQueue(Protocol):
    """A ``RequestOutputCollector``: where a request's outputs arrive."""

    request_id: str
    """The engine's own id of the request."""

    def get_nowait(self) -> Output | None:
        """Return what is there, or raise what went wrong."""

    async def get(self) -> Output:
        """Wait for an output."""

    def close(self) -> None:
        """Let go of what feeds it."""


class ModelConfig(Protocol):
    """vLLM's ``ModelConfig``."""

    model: str
    runner_type: str
    logprobs_mode: str
    max_model_len: int
    skip_tokenizer_init: bool


class EngineClient(Protocol):
    """vLLM's ``AsyncLLM``."""

    vllm_config: Any
    model_config: ModelConfig

    def check_admission(self, n: int, request_id: str) -> None:
        """Raise where the queue has no room for so many requests."""

    async def add_request(
        self,
        request_id: str,
        prompt: object,
        params: object,
        *,
        lora_request: object,
        priority: int,
        data_parallel_rank: int | None,
    ) -> OutputQueue:
        """Send one request."""

    async def abort(self, request_id: list[str], internal: bool) -> None:
        """Abort requests by the engine's own ids."""

    async def get_supported_tasks(self) -> tuple[str, ...]:
        """Return what the engine can do."""

    def get_tokenizer(self) -> Tokenizer | None:
        """Return the model's tokenizer."""
