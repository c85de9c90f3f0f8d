"""Mixers with a running state serve causal places alone, and are checked there; faults in them are caught."""

from dataclasses import replace

import pytest
import torch
from tests.testing.outcomes import failure, unsound
from torch import nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import CAUSAL, Attention
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_testing.subject import CROSS, DECODER, ENCODER, MODEL, Subject


class RunningMean(Attention):
    """Reads the mean of the values so far, gated by the query; keeps their sum and their number."""

    residual_path = ("value",)

    def __init__(self, model):
        super().__init__()
        if not model.place.causal:
            raise ConfigurationError("a running mean has only a past: choose another attention here")
        self.value, self.gate = (nn.Linear(model.width, model.width) for _ in range(2))

    def follows(self, view):
        return view == CAUSAL

    def forward(self, x, context):
        values, counts = self.counted(self.value(x), torch.ones_like(x[..., :1]), context)
        total, count = values.cumsum(1), counts.cumsum(1)
        if context.past is not None:
            total, count = total + context.past[0], count + context.past[1]
        self.keep(context, total[:, -1:], count[:, -1:])
        return self.gate(x).sigmoid() * total / count.clamp(min=1)

    def counted(self, values, ones, context):
        if context.real is None:
            return values, ones
        return values * context.real[..., None], ones * context.real[..., None]

    def keep(self, context, total, count):
        context.keep(total, count)


class Forgets(RunningMean):
    """Goes on from the last piece alone."""

    def keep(self, context, total, count):
        total, count = (
            (total, count) if context.past is None else (total - context.past[0], count - context.past[1])
        )
        context.keep(total, count)


class Refuses(RunningMean):
    """Leaves it to `follows` alone which places it serves."""

    def __init__(self, model):
        place = replace(model.place, view=CAUSAL, cross=False)
        super().__init__(replace(model, place=place))


def test_a_fault_is_caught():
    failure(Forgets, "cached_pieces_equal_the_whole")


@pytest.mark.parametrize("mean", [RunningMean, Refuses])
def test_a_component_is_checked_in_the_places_that_it_serves(mean):
    skipped = unsound(mean)
    assert set(skipped) == {"cross_attention_goes_on_by_steps", "shown_weights_fit_the_mask"}
    assert all(outcome.startswith("skipped: ") for outcome in skipped.values())
    assert Subject.of(mean).place == DECODER


@pytest.mark.parametrize("place", [ENCODER, CROSS])
def test_a_place_that_is_asked_for_comes_first(place):
    subject = Subject.of(MultiHeadAttention, model=replace(MODEL, place=place))
    assert subject.place == place
