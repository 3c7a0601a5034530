"""A byte-level tokenizer with a chat template, written as the JSON files that `tokenizers` loads.

Every byte is a token, so any text has an encoding; a few dozen merges shorten English.  The files are written
here, not saved by the library, so that their bytes do not depend on its version.
"""

from __future__ import annotations

from collections.abc import Mapping

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
END_OF_TEXT, _, END_OF_TURN = SPECIAL_TOKENS

# In the order in which byte-pair merges are applied; "_" is a space here.
_MERGE_LIST = """
_+t h+e i+n r+e o+n _t+he e+r a+t _+a _+s o+r e+n _+o i+t _+w a+n e+s _+c i+s n+d _+b _+p a+l
o+u _+f in+g e+d _o+f _+m a+r _t+o i+c _+d _a+nd l+e _+in s+t _+h i+on r+o v+e l+l _+n o+m a+s
_+re u+t e+l _+l c+t o+t _+e a+c _+is l+o _+g i+d u+s _+y _y+es u+r
"""

# Byte-level vocabularies spell a space as U+0120.
_MERGES = tuple(tuple(pair.replace("_", "\u0120").split("+")) for pair in _MERGE_LIST.split())

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_alphabet() -> list[str]:
    """Return the 256 characters that stand for the bytes 0 to 255 in a byte-level vocabulary.

    Printable Latin-1 characters stand for themselves; the others are moved to U+0100 and up, in byte order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = (value for value in range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(moved)) for byte in range(256)]


def vocabulary(size: int) -> dict[str, int]:
    """Return token -> id: bytes (0 to 255), merges, special tokens, then unused ids up to `size`.

    Raises:
        ValueError: when `size` has no room for the bytes, the merges and the special tokens.
    """
    tokens = [*byte_alphabet(), *("".join(pair) for pair in _MERGES), *SPECIAL_TOKENS]
    if size < len(tokens):
        raise ValueError(f"vocab_size={size} is too small for {len(tokens)} tokens: use at least that many")
    tokens += [f"<|unused_{index}|>" for index in range(size - len(tokens))]
    return {token: index for index, token in enumerate(tokens)}


def _special(token: str, index: int) -> dict[str, object]:
    return {
        "id": index,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def tokenizer_json(vocab: Mapping[str, int]) -> dict[str, object]:
    """Return `tokenizer.json` for a vocabulary made by `vocabulary()`."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    specials = [token for token in vocab if token.startswith("<|")]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(token, vocab[token]) for token in specials],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: index for token, index in vocab.items() if token not in specials},
            "merges": [list(pair) for pair in _MERGES],
        },
    }


def tokenizer_config(max_position: int) -> dict[str, object]:
    """Return `tokenizer_config.json`; `max_position` in tokens."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_position,
        "eos_token": END_OF_TURN,
        "pad_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
