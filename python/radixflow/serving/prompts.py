"""The served model's tokenizer and chat template, as :mod:`radixflow.decisions` wants them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

from radixflow.decisions import DecisionError, LabelError, Render
from radixflow.serving.protocols import Tokenizer

# What the endpoint decides itself; a client that sets one would change what is read, or where.
_FORCED: Mapping[str, object] = {"add_generation_prompt": True, "continue_final_message": False, "tokenize": False}
_RESERVED = frozenset({*_FORCED, "chat_template", "conversation", "messages", "return_dict", "return_tensors"})


class Prompts:
    """Encodes, decodes and renders; a copy of the tokenizer of its own, used from one thread."""

    def __init__(
        self, tokenizer: Tokenizer, *, chat_template: str | None = None, defaults: Mapping[str, object] | None = None
    ) -> None:
        """Take a tokenizer.

        Args:
            tokenizer: a Hugging Face tokenizer.
            chat_template: Jinja text that replaces the tokenizer's own template.
            defaults: variables for the template where a request gives none.
        """
        # The library's fast tokenizers refuse to be used by two threads at once, and the server has its own user.
        self._tokenizer = copy.deepcopy(tokenizer)
        self._chat_template = chat_template
        self._defaults = {"enable_thinking": False, **(defaults or {})}

    @property
    def added(self) -> frozenset[int]:
        """Ids added to the vocabulary: role markers and the like."""
        return frozenset(self._tokenizer.get_added_vocab().values())

    def encode(self, text: str) -> Sequence[int]:
        """Return the ids of a text, without special tokens added."""
        return self._tokenizer.encode(text, add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens kept."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def renderer(self, variables: Mapping[str, object] | None = None) -> Render:
        """Return the chat template with a request's variables.

        Raises:
            DecisionError: a variable that the endpoint sets itself.
        """
        variables = variables or {}
        reserved = next((name for name in variables if name in _RESERVED), None)
        if reserved is not None:
            raise DecisionError(
                f"chat_template_kwargs.{reserved}", "is set by this endpoint", "leave it out of chat_template_kwargs"
            )
        given = {**self._defaults, **variables, **_FORCED}
        if self._chat_template is not None:
            given["chat_template"] = self._chat_template

        def render(messages: list[dict[str, str]]) -> str:
            try:
                text = self._tokenizer.apply_chat_template(messages, **given)
            except Exception as error:
                if not variables:
                    raise LabelError(f"the chat template can't write a prompt ({error}); serve with another") from error
                raise DecisionError(
                    "chat_template_kwargs", f"make the chat template fail ({error})", "leave out what it can't take"
                ) from error
            if not isinstance(text, str):
                raise LabelError(
                    f"the chat template returned {type(text).__name__} instead of text; serve with another"
                )
            return text

        return render
