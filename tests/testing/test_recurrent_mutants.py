"""Mixers with a running state serve causal places alone, and are checked there; faults in them are caught."""

from dataclasses import replace

import pytest
import torch
from tests.testing.mutants import mutant_tests
from torch import nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import CAUSAL, Attention
from plugformer_blocks import Within
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_testing import Status, check
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
        past = self.past(context)
        if past is not None:
            total, count = total + past[0], count + past[1]
        self.keep(context, total[:, -1:], count[:, -1:])
        return self.gate(x).sigmoid() * total / count.clamp(min=1)

    def counted(self, values, ones, context):
        if context.real is None:
            return values, ones
        return values * context.real[..., None], ones * context.real[..., None]

    def past(self, context):
        return context.past

    def keep(self, context, total, count):
        context.keep(total, count)


class Forgets(RunningMean):
    """Goes on from the last piece alone."""

    def keep(self, context, total, count):
        total, count = (
            (total, count) if context.past is None else (total - context.past[0], count - context.past[1])
        )
        context.keep(total, count)


class KeepsForItself(RunningMean):
    """Keeps the summary where no rows are selected."""

    def past(self, context):
        return None if context.slots is None or context.slots.start == 0 else self.kept

    def keep(self, context, total, count):
        self.kept = total, count


class CountsPadding(RunningMean):
    """Padding moves the summary."""

    def counted(self, values, ones, context):
        return super().counted(values, ones, context)[0], ones


class KeepsPadding(RunningMean):
    def counted(self, values, ones, context):
        return values, super().counted(values, ones, context)[1]


class SeesItsPiece(RunningMean):
    def counted(self, values, ones, context):
        values, ones = super().counted(values, ones, context)
        return values.flip(1), ones


class Refuses(RunningMean):
    """Leaves it to `follows` alone which places it serves."""

    def __init__(self, model):
        place = replace(model.place, view=CAUSAL, cross=False)
        super().__init__(replace(model, place=place))


class Grows(RunningMean):
    """Keeps every sum, not the last alone."""

    def keep(self, context, total, count):
        before = [] if context.past is None else [context.past[0]]
        context.keep(torch.cat([*before, total], dim=1), count)

    def past(self, context):
        return None if context.past is None else (context.past[0][:, -1:], context.past[1])


class ClaimsDocuments(RunningMean):
    """Goes on across documents."""

    def follows(self, view):
        return view in (CAUSAL, Within(CAUSAL))


class ServesNothing(RunningMean):
    def __init__(self, model):
        raise ConfigurationError("it fits nowhere")


class FailsInALayer(RunningMean):
    def __init__(self, model):
        if model.place.layer == 11:
            raise KeyError("layer")
        super().__init__(model)


test_is_caught, _ = mutant_tests(
    {
        "cached_pieces_equal_the_whole": (Forgets, CountsPadding, KeepsPadding, Grows),
        "the_future_is_not_seen": (SeesItsPiece,),
        "rows_can_be_selected": (KeepsForItself,),
        "constructs": (ServesNothing,),
        "the_view_is_followed": (ClaimsDocuments,),
        "serves_or_refuses_each_place": (FailsInALayer,),
    },
    raising=("KeepsForItself", "Grows"),
)


@pytest.mark.parametrize("mean", [RunningMean, Refuses])
def test_a_component_is_checked_in_the_places_that_it_serves(mean):
    report = check(mean)
    assert report
    assert {outcome.check for outcome in report.of(Status.SKIPPED)} == {
        "cross_attention_goes_on_by_steps",
        "shown_weights_respect_the_mask",
        "shown_weights_are_those_used",
    }
    (noted,) = [outcome for outcome in report.of(Status.PASSED) if outcome.message]
    assert noted.check == "serves_or_refuses_each_place"
    places = "layer 0 of the encoder, layer 3 of the encoder, cross-attention in layer 1 of the decoder"
    assert places in noted.message
    assert Subject.of(mean).place == DECODER


def test_a_summary_that_grows_is_named_with_its_shapes():
    (outcome,) = check(Grows, only="cached_pieces_equal_the_whole").outcomes
    assert "`context.keep` is given a tensor of shape (1, 2, 24) after (1, 1, 24)" in outcome.message


def test_a_component_that_serves_no_place_does_not_pass():
    report = check(ServesNothing)
    assert [outcome.check for outcome in report.of(Status.FAILED)] == ["constructs"]
    assert not report.of(Status.PASSED)


@pytest.mark.parametrize("place", [ENCODER, CROSS])
def test_a_place_that_is_asked_for_comes_first(place):
    subject = Subject.of(MultiHeadAttention, model=replace(MODEL, place=place))
    assert subject.place == place
