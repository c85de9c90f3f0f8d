"""The best next tokens by blocks and groups, packed weights and folded beams: equal to the plain path."""

import pytest
import torch
from tests.decoding.test_sessions import assert_same, plain, session  # noqa: F401 (a fixture)
from torch.nn import functional

from plugformer.interfaces import Session
from plugformer.interfaces.output_layer import LARGE, PackedMatrices, best
from plugformer.model.decoder import Cache
from plugformer_plugins.decoding.beam import Beam


@pytest.mark.parametrize("vocabulary", [5, 64, 4096, 8000, 8003])
@pytest.mark.parametrize("count", [1, 3, 10])
def test_the_best_scores_are_those_of_topk(vocabulary, count):
    scores = torch.randn(7, vocabulary, generator=torch.Generator().manual_seed(1))
    scores[2, vocabulary // 2] = torch.nan
    scores[3, 4:] = -torch.inf
    values, tokens = best(scores, count)
    expected = scores.topk(min(count, vocabulary), dim=-1).values
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(scores.gather(1, tokens), values, rtol=0, atol=0, equal_nan=True)


def test_packed_matrices_follow_their_parameter():
    weight = torch.nn.Parameter(torch.randn(LARGE // 64, 64))
    x = torch.randn(5, 64)
    for _ in range(2):
        with torch.inference_mode(), PackedMatrices():
            torch.testing.assert_close(functional.linear(x, weight), x @ weight.T)
        with torch.no_grad():
            weight.mul_(-1)


def test_top_is_what_log_probabilities_have(plain, sentences):  # noqa: F811
    opened, read = (session(Session, plain, sentences()) for _ in range(2))
    values, tokens = opened.top(3)
    expected = read.log_probabilities.topk(3, dim=-1)
    torch.testing.assert_close(values, expected.values)
    assert torch.equal(tokens, expected.indices)
    assert "log_probabilities" not in vars(opened)


def test_beams_share_the_states_of_their_source(plain, sentences, monkeypatch):  # noqa: F811
    shared = session(Session, plain, sentences())
    folded = Beam(size=3).search(shared)
    assert shared._past.beams == 3
    monkeypatch.setattr(Cache, "is_foldable", property(lambda cache: False, lambda cache, value: None))
    copied = session(Session, plain, sentences())
    assert_same(folded, Beam(size=3).search(copied))
    assert copied._past.beams == 1
