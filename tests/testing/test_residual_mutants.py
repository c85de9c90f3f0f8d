"""Every check of residual connections catches a fault that it is there for."""

import inspect

import pytest
import torch
from tests.taking import BySequence, ByToken
from tests.testing.mutants import after, fault_test, instead
from tests.testing.outcomes import failure, unsound

from plugformer.model import layer
from plugformer.registry import Kind
from plugformer_plugins.residual.norms import DeepNorm, PreNorm


class LeavesOutCrossAttention(PreNorm):
    def forward(self, x, sublayers):
        known = {name: sublayers[name] for name in ("attention", "feed_forward")}
        return super().forward(x, known)


class PaddingIsCounted(BySequence):
    def chosen(self, scores, real):
        return super().chosen(scores, real | True)


class HalfOfEachPiece(BySequence):
    """Of a step of decoding it takes the only token."""

    takes = "by token"


class InfiniteGain(DeepNorm):
    def __init__(self, model):
        super().__init__(model)
        self.gain = 1 / model.place.layer if model.place.layer else float("inf")


class Together(ByToken):
    """Sublayers compute tokens moved together in order; it leaves it to the layer to see which are real."""

    def chosen(self, scores, real):
        return (scores > 0) | ~real

    def most(self, length):
        return length


IN_THE_LAYER = [
    ("stable=True)", "stable=True).flip(1)"),
    ("at.index.expand_as(tokens).gather(1, columns)", "at.index[:, :most].expand_as(columns)"),
    ("hidden.gather(1, places)", "hidden"),
    ("context.only(tokens, kept)", "context"),
    ("tokens & context.real", "tokens"),
    ('states["tokens"]', "State()"),
]
"""Faults of the layer itself, as changes of its source: each is caught with a sound residual connection."""

MUTANTS = {
    "shapes": after("OneTokenOnly", PreNorm, forward=lambda self, output, *_: output[:, :1]),
    "exports": after("KnowsTheBatch", PreNorm, forward=lambda self, output, x, _: output[: len(x)]),
    "each_sublayer_runs_once": LeavesOutCrossAttention,
    "every_sublayer_counts": LeavesOutCrossAttention,
    "tokens_stay_apart": HalfOfEachPiece,
    "takes_what_it_says": instead("Undeclared", ByToken, takes="all"),
    "keeps_the_format": after(
        "InFloat32", PreNorm, forward=lambda self, y, *_: y.float() if y.dtype == torch.bfloat16 else y
    ),
    "rows_are_independent": PaddingIsCounted,
    "models_keep_their_contract": HalfOfEachPiece,
    "says_what_it_needs": InfiniteGain,
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.RESIDUAL)


@pytest.mark.parametrize("residual", [ByToken, BySequence, Together])
def test_some_tokens_are_taken(residual):
    assert not {*MUTANTS} & {*unsound(residual)}


@pytest.mark.parametrize(("right", "wrong"), IN_THE_LAYER)
def test_a_fault_of_the_layer_is_caught(right, wrong, monkeypatch):
    source = inspect.getsource(layer)
    assert source.count(right) == 1
    faulty = {"__name__": layer.__name__}
    exec(source.replace(right, wrong), faulty)  # noqa: S102 (it is our own)
    monkeypatch.setattr(layer.Layer, "_sublayer", faulty["Layer"]._sublayer)
    failure(Together, "models_keep_their_contract", raises=True)
