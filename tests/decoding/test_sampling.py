"""Sampling: which tokens may come, how often, and what decides."""

import pytest
import torch

from plugformer.interfaces import END, Session
from plugformer.registry import Kind

PROBABILITIES = torch.tensor([0.0, 0.05, 0.0, 0.15, 0.5, 0.3])
MANY = 4_000


class OneStep(Session):
    """Sentences whose next token always has the same distribution, and which then end."""

    every, looks = 1, True

    def __init__(self, sentence_ids):
        self.sentence_ids = list(sentence_ids)
        self.sentences = torch.arange(len(self.sentence_ids))
        self.scores = PROBABILITIES.log().expand(len(self.sentence_ids), -1)

    @property
    def log_probabilities(self):
        return self.scores

    def extend(self, tokens):
        only_end = torch.full_like(self.scores, -torch.inf)
        only_end[:, END] = 0.0
        self.scores = only_end

    def select(self, rows, sentences=None):
        self.sentences = self.sentences[rows]
        self.scores = self.scores[rows]


def first_tokens(registry, sentence_ids, **options):
    """Returns the first token of each sentence; END if it has none."""
    found = registry.create(Kind.DECODING, "sampling", **options).search(OneStep(sentence_ids))
    return torch.tensor([(hypotheses[0].tokens or [END])[0] for hypotheses in found])


def frequencies(registry, **options):
    tokens = first_tokens(registry, range(MANY), **options)
    return tokens.bincount(minlength=6) / MANY


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, PROBABILITIES),
        ({"temperature": 0.5}, PROBABILITIES**2),
        ({"temperature": 2.0}, PROBABILITIES**0.5),
        ({"top_k": 2}, PROBABILITIES * (PROBABILITIES > 0.2)),
        ({"top_k": 100}, PROBABILITIES),
        ({"top_p": 0.79}, PROBABILITIES * (PROBABILITIES > 0.2)),
        ({"top_p": 0.81}, PROBABILITIES * (PROBABILITIES > 0.1)),
        ({"top_k": 3, "top_p": 0.5}, PROBABILITIES * (PROBABILITIES > 0.4)),
        ({"temperature": 0.5, "top_p": 0.7}, PROBABILITIES**2 * (PROBABILITIES > 0.2)),
    ],
    ids=str,
)
def test_frequencies(registry, options, expected):
    expected = expected / expected.sum()
    found = frequencies(registry, **options)
    assert found[expected == 0].eq(0).all()
    deviation = (expected * (1 - expected) / MANY).sqrt()
    assert ((found - expected).abs() <= 4.5 * deviation + 1e-4).all()


def test_seed_and_key_decide_and_the_batch_does_not(registry):
    whole = first_tokens(registry, range(100), seed=3)
    assert torch.equal(first_tokens(registry, range(100), seed=3), whole)
    assert torch.equal(first_tokens(registry, range(40, 100), seed=3), whole[40:])
    assert torch.equal(first_tokens(registry, reversed(range(100)), seed=3), whole.flip(0))
    assert not torch.equal(first_tokens(registry, range(100), seed=4), whole)


def test_sampling_draws_nothing_from_the_global_generators(registry):
    before = torch.get_rng_state()
    first_tokens(registry, range(5))
    assert torch.equal(torch.get_rng_state(), before)
