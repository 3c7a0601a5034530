"""A quick start: embeddings that know what words are about, learned from bags of words before any layer is."""

from __future__ import annotations

from itertools import islice
from random import Random

import torch
from prompts import Renderer
from torch import nn
from torch.nn import functional as fn

from radixflow.decisions.text import json_text
from radixflow.synthetic import samples, wordings
from radixflow.synthetic.generator import FACTS
from radixflow.synthetic.ticket import TOPICS

_STATES, _STEPS, _BATCH = 8_000, 400, 256
_HEAD_GAIN = 0.6

Text = tuple[tuple[int, ...], dict[str, int]]


def option_texts(renderer: Renderer) -> list[Text]:
    """Return names, descriptions and questions that stand for one topic or plan, with which one it is."""
    found: list[tuple[str, dict[str, int]]] = []
    for place, topic in enumerate(TOPICS):
        own = wordings.TOPIC_NOULS.get(topic.name)
        texts = [*topic.names, *topic.described, *(own["train"] if own else ())]
        found += [(text, {"topic": place}) for text in texts]
    for place, plan in enumerate(("none", "call", "leave", "file")):
        names, described = wordings.PLAN_NAMES[plan]
        asked = wordings.PLANNED[plan]["train"] if plan in wordings.PLANNED else ()
        found += [(text, {"plan": place}) for text in (*names, *described["train"], *asked)]
    moods = {
        0: ("very positive", "great", "delighted"),
        1: ("positive", "good", "happy"),
        2: ("neutral", "okay", "calm"),
    }
    moods |= {4: ("negative", "bad", "unhappy", "annoyed"), 5: ("angry", "upset"), 6: ("furious", "very negative")}
    found += [(text, {"mood": place}) for place, texts in moods.items() for text in texts]
    hurries = {
        0: ("not urgent", "low", "none"),
        2: ("medium", "this week"),
        3: ("urgent", "high", "today"),
        4: ("critical", "now"),
    }
    found += [(text, {"urgency": place}) for place, texts in hurries.items() for text in texts]
    # At the start of a line and within one: two tokens.
    return [(renderer.encode(lead + text), facts) for text, facts in found for lead in ("", " ")]


def warm_up(network: nn.Module, teacher: nn.Module, renderer: Renderer, seed: int) -> float:
    """Train the embeddings in place, and let the label head begin with them; return the last loss."""
    table = network.model.embed_tokens.weight
    texts: list[Text] = [
        (renderer.encode(json_text(sample.request["state"], "state")), sample.facts)
        for sample in islice(samples("train", seed + 1000), _STATES)
    ]
    own = option_texts(renderer)
    embedding = nn.EmbeddingBag(*table.shape, mode="mean", _weight=table.detach().clone())
    head = nn.Linear(table.shape[1], sum(FACTS.values()))
    optimizer = torch.optim.Adam([*embedding.parameters(), *head.parameters()], lr=5e-3)
    rng = Random(seed)
    loss = torch.zeros(())
    for _ in range(_STEPS):
        batch = [*rng.choices(texts, k=_BATCH), *rng.choices(own, k=_BATCH // 2)]
        ids = torch.tensor([token for text, _ in batch for token in text])
        starts = torch.tensor([0, *[len(text) for text, _ in batch[:-1]]]).cumsum(0)
        found = head(embedding(ids, starts)).split(list(FACTS.values()), -1)
        loss = torch.zeros(())
        for name, logits in zip(FACTS, found, strict=True):
            loss = loss + fn.cross_entropy(logits, torch.tensor([facts.get(name, -100) for _, facts in batch]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        table.copy_(embedding.weight * (0.5 / embedding.weight.std()))
        # Layers see embeddings at a root mean square of one.
        teacher.mean.weight.copy_(head.weight * embedding.weight.std())
        teacher.mean.bias.copy_(head.bias)
        network.lm_head.weight.copy_(table * (_HEAD_GAIN / table.shape[1] ** 0.5 / 0.5))
    return loss.item() / len(FACTS)
