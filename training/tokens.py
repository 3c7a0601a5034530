"""The tokenizer of the decision model: byte-level BPE, lower case, trained on the synthetic decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from radixflow.models.tokenizer import SPECIAL_TOKENS
from radixflow.synthetic import samples, wordings, words
from radixflow.synthetic.ticket import TOPICS

VOCAB_SIZE = 3072
_SAMPLES = 20_000
# A name answers as one token only where it is one at the start of a line, however rare it is in the corpus.
_NAME_WEIGHT = 400
_WORD_WEIGHT = 60
_COMMON = """
about after again against all almost also always am among an and another any are around as ask at away back bad be
because been before began being below best better between big both boy bring build but by call came can car carry
change children city close come could country cut day did different do does done down each early earth eat end enough
even ever every example eye face fact fall far fast father feel few field find first follow food for form found from
full game gave get girl give go good got great group grow had half hand hard has have he head hear help her here high
him his hold home hour house how idea if important in into is it its just keep kind king know land large last late
learn leave left let letter life light like line list little live long look made main make man many may me mean men
might mind miss money more morning most move much must my name near need never new next night no north not note
nothing now number of off often old on once one only open or order other our out over own page part people place
plan play point possible problem put question quick rather read real right road room run said same saw say school
second see seem sentence set she should show side since small so some something soon sound south stand start state
still stop story study such sure take talk tell than that the their them then there these they thing think this those
though thought three through time to today together told too took town tree true try turn two under until up upon us
use very voice walk want war was watch water way we week well went were what when where which while white who whole
why will wish with without word work world would write wrong year yes yet you young your
"""
COMMON = tuple(_COMMON.split())


def build_tokenizer(seed: int) -> Tokenizer:
    """Train the tokenizer."""
    tokenizer = Tokenizer(models.BPE())
    # Half of the words to learn; what a text shouts is in its words too.
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_corpus(seed), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    missing = VOCAB_SIZE - tokenizer.get_vocab_size()
    if missing:
        tokenizer.add_special_tokens(
            [AddedToken(f"<|unused_{n}|>", special=True, normalized=False) for n in range(missing)]
        )
    return tokenizer


def option_names() -> list[str]:
    """Return every name that an option of a synthetic choice may have."""
    teams = [name for topic in TOPICS for name in topic.names]
    plans = [name for names, _ in wordings.PLAN_NAMES.values() for name in names]
    moods = [name for names in wordings.SENTIMENT_NAMES for name in names]
    return list(dict.fromkeys([*teams, *plans, *moods, *wordings.OTHERS, "yes", "no"]))


def _corpus(seed: int) -> Iterator[str]:
    for sample in islice(samples("train", seed), _SAMPLES):
        yield json.dumps(sample.request, ensure_ascii=False)
    for name in option_names():
        yield from [f"\n{name}\n {name}"] * _NAME_WEIGHT
    for word in (*words.WORDS, *COMMON):
        yield from [f"\n{word} {word}"] * _WORD_WEIGHT
    yield from ["<user\nassistant\n"] * _NAME_WEIGHT
