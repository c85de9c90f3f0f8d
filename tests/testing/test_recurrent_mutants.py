"""Mixers with a running state serve causal places alone, and are checked there; faults in them are caught."""

from dataclasses import replace

import pytest
import torch
from tests.testing.mutants import instead, mutant_tests
from torch import nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import PAST, Attention
from plugformer_blocks import Recurrent, Within
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_testing import Status, check
from plugformer_testing.subject import CROSS, DECODER, ENCODER, MODEL, Subject


class Sums(Recurrent):
    """Values, zero at padding, and which tokens are real; of the past, the sum and the number of tokens."""

    def fold(self):
        values, real = self.piece
        total, count = values.sum(1), real.sum(1)
        return (total + self.past[0], count + self.past[1]) if self.past else (total, count)


class RunningMean(Attention):
    """Reads the mean of the values so far, gated by the query."""

    state = Sums
    residual_path = ("value",)

    def __init__(self, model):
        super().__init__()
        if not model.place.causal:
            raise ConfigurationError("a running mean has only a past: choose another attention here")
        self.value, self.gate = (nn.Linear(model.width, model.width) for _ in range(2))

    def follows(self, view):
        return view == PAST

    def project(self, memory, positions):
        return self.state(self.value(memory) * positions.mask[..., None], positions.mask)

    def attend(self, query, state, context):
        values, real = state.piece
        total, count = values.cumsum(1), real.cumsum(1)
        if state.past:
            total, count = total + state.past[0][:, None], count + state.past[1][:, None]
        return self.gate(query).sigmoid() * total / count.clamp(min=1)[..., None]


class Forgetful(Sums):
    """Goes on from the last piece alone."""

    def fold(self):
        return Sums(*self.piece).fold()


class Unmoved(Sums):
    """Moves the rows of the last piece, not those of the summary."""

    def select(self, rows):
        past = tuple(tensor[: len(rows)] for tensor in self.past)
        return type(self)(*super().select(rows).piece, past=past)


class CountsPadding(RunningMean):
    """Padding moves the summary."""

    def project(self, memory, positions):
        return Sums(self.value(memory) * positions.mask[..., None], torch.ones_like(positions.mask))


class KeepsPadding(RunningMean):
    def project(self, memory, positions):
        return Sums(self.value(memory), positions.mask)


class SeesItsPiece(RunningMean):
    def attend(self, query, state, context):
        values, real = state.piece
        return super().attend(query, Sums(values.flip(1), real, past=state.past), context)


class ClaimsDocuments(RunningMean):
    """Goes on across documents."""

    def follows(self, view):
        return view in (PAST, Within(PAST))


class ServesNothing(RunningMean):
    def __init__(self, model):
        raise ConfigurationError("it fits nowhere")


class FailsInALayer(RunningMean):
    def __init__(self, model):
        if model.place.layer == 11:
            raise KeyError("layer")
        super().__init__(model)


Forgets = instead("Forgets", RunningMean, state=Forgetful)
test_is_caught, _ = mutant_tests(
    {
        "cached_pieces_equal_the_whole": (Forgets,),
        "projecting_pieces_equals_projecting_the_whole": (Forgets,),
        "padding_moves_nothing": (CountsPadding,),
        "padding_is_not_seen": (KeepsPadding,),
        "the_future_is_not_seen": (SeesItsPiece,),
        "rows_can_be_selected": (instead("LeavesThePast", RunningMean, state=Unmoved),),
        "constructs": (ServesNothing,),
        "the_view_is_followed": (ClaimsDocuments,),
        "serves_or_refuses_each_place": (FailsInALayer,),
    }
)


def test_a_component_is_checked_in_the_places_that_it_serves():
    report = check(RunningMean)
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
    assert Subject.of(RunningMean).place == DECODER


def test_a_component_that_serves_no_place_does_not_pass():
    report = check(ServesNothing)
    assert [outcome.check for outcome in report.of(Status.FAILED)] == ["constructs"]
    assert not report.of(Status.PASSED)


@pytest.mark.parametrize("place", [ENCODER, CROSS])
def test_a_place_that_is_asked_for_comes_first(place):
    subject = Subject.of(MultiHeadAttention, model=replace(MODEL, place=place))
    assert subject.place == place
