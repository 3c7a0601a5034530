"""Labels: each is one token where an answer begins, or the reason why it can't be read."""

from __future__ import annotations

import json

import pytest
import tokenizers

from radixflow.decisions import (
    DecisionError,
    LabelError,
    LabelForm,
    LabelReader,
    check_tail,
    generation_tail,
    label_ids,
    letter_sets,
    letter_tokens,
    name_tokens,
)
from radixflow.models.tokenizer import tokenizer_json, vocabulary


class Words:
    """A tokenizer for tests: one id a character, but for the pieces it knows, longest first."""

    def __init__(self, *pieces):
        self.pieces = sorted(pieces, key=len, reverse=True)

    def encode(self, text):
        ids = []
        while text:
            piece = next((piece for piece in self.pieces if text.startswith(piece)), text[0])
            ids.append(10_000 + self.pieces.index(piece) if piece in self.pieces else ord(piece))
            text = text[len(piece) :]
        return ids

    def decode(self, ids):
        return "".join(self.pieces[index - 10_000] if index >= 10_000 else chr(index) for index in ids)

    def reader(self, tail="\n"):
        return LabelReader(self.encode, self.decode, tuple(self.encode(tail)))


def test_every_letter_is_one_token_after_the_tail():
    words = Words("yes", "no", "assistant")
    known = letter_tokens(words.reader("assistant\n"), letter_sets())
    assert known["A"] == ord("A")
    assert known["9"] == ord("9")
    assert words.decode([known["yes"], known["no"]]) == "yesno"
    assert len(known) == 26 + 10 + 2


@pytest.mark.parametrize(
    ("pieces", "tail", "message"),
    [
        (("no",), "\n", r"label 'yes' is 3 tokens .*use a model with a manifest of label form 'names'"),
        (("yes", "no", "\nB"), "\n", r"label 'B' after the prompt's last tokens \[10\] encodes to \[1000\d\]"),
        (("yes", "no", ">A"), "a>", r"label 'A' after the prompt's last tokens \[97, 62\] encodes to"),
    ],
)
def test_a_tokenizer_that_fails_the_one_token_check_says_why(pieces, tail, message):
    with pytest.raises(LabelError, match=message):
        letter_tokens(Words(*pieces).reader(tail), letter_sets())


def test_labels_of_one_set_have_to_be_distinct_and_those_of_two_sets_need_not():
    reader = LabelReader(lambda text: [ord(text[-1].lower())], lambda ids: "", ())
    assert letter_tokens(reader, [("A", "B"), ("a", "b")]) == {"A": 97, "B": 98, "a": 97, "b": 98}
    with pytest.raises(LabelError, match=r"labels 'A' and 'a' are the same token \(97\)"):
        letter_tokens(reader, [("A", "B", "a")])


def test_a_name_is_read_at_its_first_token():
    reader = Words("bill", "out").reader()
    assert name_tokens(reader, "team", ["billing", "outage", "x"]) == (10_000, 10_001, ord("x"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["outage", "bill", "billing"], r"'bill' and 'billing', which begin with the same token .*rename one"),
        (["very low", "very high"], r"'very low' and 'very high', which begin with the same token \(118\)"),
        (["a", ""], r"has the option '', which has no first token"),
        (["\nfirst"], r"option '\\nfirst', which has no first token of its own; give it another name"),
    ],
)
def test_names_that_cannot_be_told_apart_are_an_error_that_names_them(names, message):
    reader = Words("bill", "\n\n").reader()
    with pytest.raises(DecisionError, match=message) as caught:
        name_tokens(reader, "team", names)
    assert caught.value.param == "questions.team.criteria"


def test_the_form_decides_which_token_is_read():
    words = Words("yes", "no", "bill")
    letters = letter_tokens(words.reader(), letter_sets())
    names = label_ids(words.reader(), letters, LabelForm.NAMES, "team", ("billing", "A"))
    assert names == (words.encode("bill")[0], ord("A"))
    assert label_ids(words.reader(), letters, LabelForm.LETTERS, "team", ("B", "A")) == (66, 65)
    with pytest.raises(LabelError, match="label 'a' was not checked at start-up"):
        label_ids(words.reader(), letters, LabelForm.LETTERS, "team", ("B", "a"))


def test_the_tail_is_what_follows_the_last_added_token():
    assert generation_tail([1, 900, 5, 901, 7, 8], {900, 901}) == (7, 8)
    assert generation_tail([1, 900], {900}) == ()
    assert generation_tail([1, 2], {900}) == (1, 2)


def test_a_prompt_that_ends_otherwise_is_refused():
    check_tail([1, 7, 8], (7, 8))
    check_tail([1, 7, 8], ())
    with pytest.raises(DecisionError, match=r"end with tokens \[8, 9\] instead of \[7, 8\]") as caught:
        check_tail([7, 8, 9], (7, 8))
    assert caught.value.param == "chat_template_kwargs"


def test_the_embedded_tokenizer_is_read_by_names_and_refused_by_letters():
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(vocabulary(320))))

    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    def decode(ids):
        return tokenizer.decode(list(ids), skip_special_tokens=False)

    prompt = encode("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    added = {tokenizer.token_to_id("<|im_start|>"), tokenizer.token_to_id("<|im_end|>")}
    reader = LabelReader(encode, decode, generation_tail(prompt, added))
    assert decode(reader.tail) == "assistant\n"
    assert name_tokens(reader, "team", ["billing", "outage"]) == (encode("b")[0], encode("ou")[0])
    # It has no token "yes": only " yes" was worth a merge.
    with pytest.raises(LabelError, match="label 'yes' is 2 tokens"):
        letter_tokens(reader, letter_sets())
