"""Views and marks: what is seen, written out by hand; that marks travel with tokens; and who is refused."""

from dataclasses import replace

import pytest
import torch
from tests.interfaces.test_context import picture

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.experiment import Experiment
from plugformer.interfaces import (
    BIDIRECTIONAL,
    CAUSAL,
    END,
    Batch,
    Context,
    ModelContext,
    Place,
    PositionalEncoding,
    Positions,
    Tokens,
)
from plugformer.model import Cache, PartSpec
from plugformer.model.build import make
from plugformer_blocks import Prefix, Within
from plugformer_plugins.attention.grouped import MultiHeadAttention

NONE = PositionalEncoding()


def tokens(rows, **marks):
    """Returns tokens, 0 for padding, with marks."""
    ids = torch.tensor(rows)
    marks = {name: torch.tensor(mark) for name, mark in marks.items()}
    return Tokens(ids, ids > 0, bool((ids > 0).all()), marks=marks)


def positions(view, given):
    """Returns the positions of whole sequences."""
    at = Positions.of(given.ids.shape[1], NONE, None if given.full else given.mask)
    return view.positions(replace(at, marks=given.marks), given.ids)


@pytest.mark.parametrize(
    ("view", "given", "expected"),
    [
        (Prefix(), tokens([[5, 6, 7]], in_prefix=[[1, 1, 0]]), ["xx.", "xx.", "xxx"]),
        (Prefix(), tokens([[6, 7, 0]], in_prefix=[[1, 1, 0]]), ["xx.", "xx.", "xx."]),
        (Prefix(), tokens([[5, 6, 7]]), ["x..", "xx.", "xxx"]),
        (Within(CAUSAL), tokens([[5, 6, END, 7]]), ["x...", "xx..", "..x.", "..xx"]),
        (Within(CAUSAL), tokens([[END, END, 7, 0]]), ["x...", ".x..", ".xx.", ".xx."]),
        (Within(BIDIRECTIONAL), tokens([[5, 6, END, 7]]), ["xx..", "xx..", "..xx", "..xx"]),
        (
            Within(Prefix()),
            tokens([[5, 6, END, 7, 8]], in_prefix=[[0, 0, 1, 1, 0]]),
            ["x....", "xx...", "..xx.", "..xx.", "..xxx"],
        ),
    ],
)
def test_what_is_seen(view, given, expected):
    at = positions(view, given)
    assert picture(Context(at, at, view=view).mask) == [expected]


def test_a_prefix_is_what_takes_the_fused_kernel_away():
    with_prefix, without = (
        positions(Prefix(), tokens([[5, 6]], **marks)) for marks in ({"in_prefix": [[1, 0]]}, {})
    )
    assert not Context(with_prefix, with_prefix, view=Prefix()).is_causal
    assert Context(without, without, view=Prefix()).is_causal
    cache = Cache([])
    for piece in (tokens([[5, 6]], in_prefix=[[1, 0]]), tokens([[7]])):
        query, key, _ = cache.extend(piece, Prefix(), NONE)
    assert not Context(query, key, view=Prefix()).is_causal
    assert picture(Context(query, key, view=Prefix()).mask) == [["xxx"]]
    assert key.mark("in_prefix").tolist() == [[1, 0, 0]]


def test_rows_with_positions_of_their_own_are_selected_with_them():
    at = Positions(torch.tensor([[0, 1], [4, 5], [2, 3]]), None, NONE)
    assert at.select(torch.tensor([2, 0, 2])).index.tolist() == [[2, 3], [0, 1], [2, 3]]


def test_marks_travel_with_tokens():
    marked = tokens([[5, 6, 7]], in_prefix=[[1, 0, 0]])
    for device in ("cpu", "meta"):
        (moved,) = Batch(target=marked).to(device).target.marks.values()
        assert moved.device.type == device
    assert marked.narrow(2).marks["in_prefix"].tolist() == [[1, 0]]


@pytest.mark.parametrize(("view", "causal"), [(CAUSAL, True), (BIDIRECTIONAL, False), (Prefix(), False)])
def test_components_are_told_what_is_true(view, causal):
    assert Place(view=view).causal is Place(view=Within(view)).causal is causal


class Running(MultiHeadAttention):
    """Stands for a mixer that hides nothing of the past."""

    def follows(self, view):
        return view == CAUSAL


def test_a_view_that_an_attention_does_not_follow_is_refused():
    place = Place(stack="decoder", view=CAUSAL)
    make(PartSpec(Running), ModelContext(width=8, heads=2, ffn_width=8, place=place))
    place = Place(stack="decoder", view=Within(CAUSAL))
    with pytest.raises(ConfigurationError, match=r"Running cannot follow Within\(view=Causal\(\)\)\nchoose"):
        make(PartSpec(Running), ModelContext(width=8, heads=2, ffn_width=8, place=place))


def test_a_task_type_decides_on_documents():
    views = {}
    for documents in ("joined", "apart"):
        type_ = f"type={{name: language-modelling, documents: {documents}}}"
        experiment = Experiment.from_resolved(resolve("brackets", [type_]))
        views[documents] = experiment.spec.stacks["decoder"].view
    assert views == {"joined": CAUSAL, "apart": Within(CAUSAL)}
