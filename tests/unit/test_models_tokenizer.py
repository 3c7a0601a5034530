"""The tokenizer is what the `tokenizers` library reads, and encodes any text."""

import json

import jinja2
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from radixflow.models.tokenizer import (
    CHAT_TEMPLATE,
    SPECIAL_TOKENS,
    byte_alphabet,
    tokenizer_json,
    vocabulary,
)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(vocabulary(320))))


def test_vocabulary_is_dense_and_starts_with_the_bytes():
    vocab = vocabulary(320)
    assert sorted(vocab.values()) == list(range(320))
    assert [vocab[letter] for letter in byte_alphabet()] == list(range(256))
    assert vocab["A"] == ord("A")
    assert {"<|endoftext|>", "<|im_start|>", "<|im_end|>"} <= set(vocab)


def test_alphabet_is_the_library_s():
    assert sorted(byte_alphabet()) == sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def test_a_vocabulary_too_small_is_refused():
    with pytest.raises(ValueError, match="vocab_size=300 is too small"):
        vocabulary(300)


@given(st.text())
def test_any_text_comes_back(text):
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(vocabulary(320))))
    if any(token in text for token in SPECIAL_TOKENS):
        return
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_merges_are_used(tokenizer):
    assert tokenizer.encode("yes the thing").tokens[-1] == "ing"
    assert tokenizer.encode(" yes").tokens == ["\u0120yes"]


def test_special_tokens_are_one_token_each(tokenizer):
    for token in SPECIAL_TOKENS:
        assert tokenizer.encode(f"a{token}b").tokens == ["a", token, "b"]


def test_chat_template_renders():
    messages = [{"role": "user", "content": "hi"}]
    text = jinja2.Template(CHAT_TEMPLATE).render(messages=messages, add_generation_prompt=True)
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
