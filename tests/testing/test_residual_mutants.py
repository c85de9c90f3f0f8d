"""Every check of residual connections catches a fault that it is there for."""

import inspect

import pytest
import torch
from tests.taking import BySequence, ByToken
from tests.testing.mutants import after, assert_caught, before, instead, mutant_tests

from plugformer.model import layer
from plugformer.registry import Kind
from plugformer_plugins.residual.norms import DeepNorm, PreNorm
from plugformer_testing import check


class RunsAttentionTwice(PreNorm):
    def forward(self, x, sublayers):
        return super().forward(sublayers["attention"].added(x, x), sublayers)


class TwiceInTraining(PreNorm):
    """As a regularization that compares two passes would."""

    def forward(self, x, sublayers):
        output = super().forward(x, sublayers)
        return (output + super().forward(x, sublayers)) / 2 if self.training else output


class LeavesOutCrossAttention(PreNorm):
    def forward(self, x, sublayers):
        known = {name: sublayers[name] for name in ("attention", "feed_forward")}
        return super().forward(x, known)


class IgnoresItsOutput(PreNorm):
    def forward(self, x, sublayers):
        for name, sublayer in sublayers.items():
            made = sublayer(self.norms[name](x))
            x = x + (made if name != "feed_forward" else made - made.detach())
        return x


class NoStream(PreNorm):
    """Feed-forward layers of old: nothing goes around a sublayer."""

    def forward(self, x, sublayers):
        for name, sublayer in sublayers.items():
            x = sublayer(self.norms[name](x))
        return x


class PaddingIsCounted(BySequence):
    def chosen(self, scores, real):
        return super().chosen(scores, real | True)


class OneShareForTheBatch(BySequence):
    def chosen(self, scores, real):
        tokens = super().chosen(scores, real)
        return tokens & (tokens.cumsum(1) <= tokens.sum(1).min())


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


class Underrated(Together):
    def most(self, length):
        return 1


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
    "shapes": (after("OneTokenOnly", PreNorm, forward=lambda self, output, *_: output[:, :1]),),
    "exports": (
        after("KnowsTheBatch", PreNorm, forward=lambda self, output, x, _: output[: len(x)]),
        after("Other", PreNorm, forward=lambda self, y, *_: y * (1 + torch.compiler.is_exporting())),
    ),
    "each_sublayer_runs_once": (RunsAttentionTwice, LeavesOutCrossAttention, TwiceInTraining),
    "every_sublayer_counts": (LeavesOutCrossAttention, IgnoresItsOutput),
    "the_stream_goes_on": (NoStream,),
    "tokens_stay_apart": (
        HalfOfEachPiece,
        before("MeanOfTokens", PreNorm, forward=lambda self, x: x - x.mean(dim=1, keepdim=True)),
    ),
    "takes_what_it_says": (
        instead("Undeclared", ByToken, takes="all"),
        instead("Misspelled", ByToken, takes="by tokens"),
        Underrated,
    ),
    "keeps_the_format": (
        after(
            "InFloat32", PreNorm, forward=lambda self, y, *_: y.float() if y.dtype == torch.bfloat16 else y
        ),
    ),
    "padding_counts_for_nothing": (PaddingIsCounted, OneShareForTheBatch),
    "models_keep_their_contract": (HalfOfEachPiece,),
    "says_what_it_needs": (InfiniteGain, instead("Undecided", PreNorm, final_norm=None)),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.RESIDUAL)


@pytest.mark.parametrize("residual", [ByToken, BySequence, Together])
def test_some_tokens_are_taken(residual):
    report = check(residual, only=list(MUTANTS))
    assert report, report.summary()


@pytest.mark.parametrize(("right", "wrong"), IN_THE_LAYER)
def test_a_fault_of_the_layer_is_caught(right, wrong, monkeypatch):
    source = inspect.getsource(layer)
    assert source.count(right) == 1
    faulty = {"__name__": layer.__name__}
    exec(source.replace(right, wrong), faulty)  # noqa: S102 (it is our own)
    monkeypatch.setattr(layer.Layer, "_sublayer", faulty["Layer"]._sublayer)
    assert_caught(Together, "models_keep_their_contract", raises=True)
