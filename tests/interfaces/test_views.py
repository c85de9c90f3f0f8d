"""Views and marks: what is seen, written out by hand; that marks travel with tokens; and who is refused."""

import pytest
import torch
from tests.interfaces.test_attention_context import picture

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.experiment import Experiment
from plugformer.interfaces import (
    END,
    EVERYTHING,
    PAST,
    AttentionContext,
    LayerContext,
    ModelContext,
    Padding,
    PartSpec,
    PositionalEncoding,
    Tokens,
)
from plugformer.model.build import make
from plugformer_blocks import Prefix, Within
from plugformer_plugins.attention.grouped import MultiHeadAttention

NONE = PositionalEncoding()


def tokens(rows, **marks):
    """Returns tokens, 0 for padding, with marks."""
    ids = torch.tensor(rows)
    marks = {name: torch.tensor(mark) for name, mark in marks.items()}
    return Tokens(ids, ids > 0, Padding.NONE if (ids > 0).all() else Padding.ANYWHERE, marks=marks)


@pytest.mark.parametrize(
    ("view", "given", "expected"),
    [
        (Prefix(), tokens([[5, 6, 7]], in_prefix=[[1, 1, 0]]), ["xx.", "xx.", "xxx"]),
        (Prefix(), tokens([[0, 6, 7]], in_prefix=[[0, 1, 1]]), [".xx", ".xx", ".xx"]),
        (Prefix(), tokens([[5, 6, 7]]), ["x..", "xx.", "xxx"]),
        (Within(PAST), tokens([[5, 6, END, 7]]), ["x...", "xx..", "..x.", "..xx"]),
        (Within(PAST), tokens([[END, 0, END, 7]]), ["x...", "x...", "..x.", "..xx"]),
        (Within(EVERYTHING), tokens([[5, 6, END, 7]]), ["xx..", "xx..", "..xx", "..xx"]),
        (
            Within(Prefix()),
            tokens([[5, 6, END, 7, 8]], in_prefix=[[0, 0, 1, 1, 0]]),
            ["x....", "xx...", "..xx.", "..xx.", "..xxx"],
        ),
    ],
)
def test_what_is_seen(view, given, expected):
    at = view.positions(given, NONE)
    assert picture(AttentionContext(at, at, view=view).mask) == [expected]


def test_a_prefix_is_what_takes_the_fused_kernel_away():
    with_prefix, without = (
        Prefix().positions(tokens([[5, 6]], **marks), NONE) for marks in ({"in_prefix": [[1, 0]]}, {})
    )
    assert not AttentionContext(with_prefix, with_prefix, view=Prefix()).is_causal
    assert AttentionContext(without, without, view=Prefix()).is_causal
    step = Prefix().positions(tokens([[7]]), NONE, with_prefix)
    assert AttentionContext(step, with_prefix.concatenate(step), view=Prefix()).attn_mask is None


def test_documents_go_on_where_the_cache_ends():
    """Positions and documents of steps, after rows were selected, are those of one pass."""
    view, rows = Within(PAST), [[5, 6, END, 7, END], [5, END, 6, 7, 8]]
    whole = view.positions(tokens(rows), NONE)
    assert whole.index.tolist() == [[0, 1, 0, 1, 0], [0, 0, 1, 2, 3]]
    order = torch.tensor([1, 0, 0])
    so_far = view.positions(tokens([row[:2] for row in rows]), NONE).select(order)
    for column in range(2, 5):
        step = view.positions(tokens([[rows[row][column]] for row in order]), NONE, so_far)
        so_far = so_far.concatenate(step)
    assert torch.equal(so_far.index, whole.index[order])
    assert torch.equal(so_far.mark("document"), whole.mark("document")[order])


def test_marks_travel_with_tokens():
    marked = tokens([[5, 6, 7]], in_prefix=[[1, 0, 0]])
    for moved in (marked.located(), marked.to("cpu"), marked.to("meta")):
        assert set(moved.marks) == {"in_prefix"}
    assert marked.to("meta").marks["in_prefix"].device.type == "meta"
    assert marked.narrow(marked.mask[:, :2]).marks["in_prefix"].tolist() == [[1, 0]]


@pytest.mark.parametrize(("view", "causal"), [(PAST, True), (EVERYTHING, False), (Prefix(), False)])
def test_components_are_told_what_is_true(view, causal):
    assert LayerContext(view=view).causal is LayerContext(view=Within(view)).causal is causal


class Running(MultiHeadAttention):
    """Stands for a mixer that hides nothing of the past."""

    def follows(self, view):
        return view == PAST


def test_a_view_that_an_attention_does_not_follow_is_refused():
    place = LayerContext(stack="decoder", view=PAST)
    make(PartSpec(Running), ModelContext(width=8, heads=2, ffn_width=8, place=place))
    place = LayerContext(stack="decoder", view=Within(PAST))
    with pytest.raises(ConfigurationError, match=r"Running cannot follow Within\(view=Past\(\)\)\nchoose"):
        make(PartSpec(Running), ModelContext(width=8, heads=2, ffn_width=8, place=place))


def test_a_task_type_decides_on_documents():
    views = {}
    for documents in ("joined", "apart"):
        type_ = f"type={{name: language-modelling, documents: {documents}}}"
        experiment = Experiment.from_resolved(resolve("brackets", [type_]))
        views[documents] = experiment.spec.stacks["decoder"].view
    assert views == {"joined": PAST, "apart": Within(PAST)}
