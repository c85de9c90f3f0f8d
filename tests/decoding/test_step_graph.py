"""Steps replayed from a graph give what computed ones do; the graph is simulated on the CPU.

The simulation records the operators of a step and calls them again with the same tensors, so that what
changes from step to step in Python, and not in a tensor, makes wrong outputs.
"""

import logging
from contextlib import contextmanager, nullcontext

import pytest
import torch
from tests.decoding.test_sessions import AtMost
from tests.model.test_cache import (  # noqa: F401 (fixtures)
    LENGTHS,
    STEPS,
    alone,
    begun,
    full,
    model,
    texts,
)
from tests.synchronizing import WAITING as UNSYNCHRONIZED
from torch.utils._python_dispatch import TorchDispatchMode

import plugformer
from plugformer.interfaces import AllowedOutputs, Encoded, Ragged, Session, evaluating
from plugformer.interfaces.step_graph import StepGraph
from plugformer_plugins.decoding.beam import Beam
from plugformer_plugins.decoding.sampling import Greedy, Sampling

WAITING = {f"aten::{name}" for name in (*UNSYNCHRONIZED, "item", "lift_fresh")}
"""In inference mode, operators come before they are taken apart; `lift_fresh` is a tensor of a list."""


class Refusing(TorchDispatchMode):
    """Raises where an operator would wait for a device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name in WAITING:
            raise RuntimeError(f"called a synchronizing operation: {func}")
        return func(*args, **(kwargs or {}))


class Recorder(TorchDispatchMode):
    """Records operators, and takes back what they change."""

    def __init__(self):
        super().__init__()
        self.calls, self.before = [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        schema, kwargs = func._schema, kwargs or {}
        if schema.name in WAITING:
            raise RuntimeError("operation not permitted when stream is capturing")
        for argument, value in zip(schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self.before.append((value, value.clone()))
        out = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, out))
        return out

    def replay(self):
        for func, args, kwargs, out in self.calls:
            new = func(*args, **kwargs)
            pairs = zip(out, new, strict=True) if isinstance(out, (tuple, list)) else [(out, new)]
            for old, value in pairs:
                if isinstance(old, torch.Tensor) and old.data_ptr() != value.data_ptr():
                    old.copy_(value)


class Simulated(StepGraph):
    """Counts what is captured and replayed."""

    def __init__(self, stepping, past):
        super().__init__(stepping, past)
        self.captures = self.replays = self.attempts = 0

    def without_waits(self):
        return Refusing()

    def capture(self, run):
        self.attempts += 1
        recorder = Recorder()
        try:
            with recorder:
                result = run()
        finally:  # a graph that is captured does nothing
            for tensor, before in reversed(recorder.before):
                tensor.copy_(before)
        self.captures += 1

        def replay():
            self.replays += 1
            recorder.replay()

        return replay, result


def searched(searcher, batch, search, every, graph=None, limits=None):
    with evaluating(searcher):
        limits = limits or AtMost([24, 24, 20, 24])
        session = Session(searcher, batch, limits, [*range(len(batch.sequences[0].ids))])
        session.every = every
        if graph is not None:
            session._graph = graph(searcher, session._past)
        found = search.search(session)
    return [[(each.tokens, pytest.approx(each.score, abs=1e-3)) for each in one] for one in found], session


@pytest.fixture(autouse=True)
def small_bucket(monkeypatch):
    monkeypatch.setattr("plugformer.model.decoder.BUCKET", 8)


def made(architecture, attention="mha", position="rope", max_length=64):
    small = plugformer.create_model(
        architecture,
        vocabulary=40,
        width=32,
        heads=4,
        layers=2,
        position=position,
        attention=attention,
        feed_forward="swiglu",
        max_length=max_length,
        seed=3,
    ).eval()
    with torch.no_grad():
        for parameter in small.parameters():
            if parameter.dim() == 2:
                parameter.mul_(2.5)
    rows = [[5, 6, 7, 8, 9], [5, 6], [12, 13, 14], [30]]
    if architecture == "encoder-decoder":
        return small, small.batch(inputs=rows)
    starts = Encoded(start=Ragged.of([[2, *row] for row in rows]))
    return small, small.spec.architecture.collate(starts, small.level)


@pytest.mark.parametrize("architecture", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize(
    ("attention", "position"), [("gqa", "rope"), ("mla", "t5"), ("mha", "alibi"), ("mha", "learned")]
)
@pytest.mark.parametrize(
    ("search", "every"), [(Greedy(), 1), (Beam(size=3), 1), (Beam(size=3), 4), (Sampling(top_k=5), 4)]
)
def test_searches_with_replayed_steps_give_the_same_outputs(architecture, attention, position, search, every):
    small, batch = made(architecture, attention, position)
    expected, _ = searched(small, batch, search, every)
    found, session = searched(small, batch, search, every, Simulated)
    assert found == expected
    assert session._graph.replays > 2 * session._graph.captures > 0


@torch.no_grad()
@pytest.mark.parametrize("moved", [[2, 0, 2, 1], [2, 1, 1], [1]], ids=["more rows", "as many", "one row"])
def test_replayed_steps_of_every_part_equal_whole_sequences(model, texts, alone, moved):  # noqa: F811
    rows, at = torch.arange(3), LENGTHS
    past, hidden = begun(model, texts)
    graph = Simulated(model, past)
    for step in range(STEPS):
        torch.testing.assert_close(hidden, alone[rows, at - 1])
        if step == 5:
            chosen = torch.tensor(moved)
            past.select(chosen)
            rows, at = rows[chosen], at[chosen]
        hidden = graph.step(full(texts[rows, at][:, None]))
        at = at + 1
    assert graph.replays > graph.captures


def test_a_step_that_waits_is_found_before_it_is_captured(caplog):
    waiting, batch = made("decoder-only")
    expected, _ = searched(waiting, batch, Greedy(), 4)
    forward = waiting.decoder.final_norm.forward
    waiting.decoder.final_norm.forward = lambda x: forward(x) if x.isfinite().all() else x
    with caplog.at_level(logging.INFO):
        for fixed in (True, False):  # the second session knows from the beginning
            found, session = searched(waiting, batch, Greedy(), 4, Simulated)
            assert found == expected
            assert session._graph.attempts == 0
            assert session._past.fixed == fixed
    assert len(caplog.records) == 1


@torch.no_grad()
def test_a_rehearsal_that_fails_leaves_no_trace(model, texts, alone):  # noqa: F811
    class Late(Simulated):
        @contextmanager
        def without_waits(self):
            yield
            raise RuntimeError("called a synchronizing operation")

    past, hidden = begun(model, texts)
    graph = Late(model, past)
    for step in range(STEPS):
        at = LENGTHS + step
        torch.testing.assert_close(hidden, alone[torch.arange(3), at - 1])
        hidden = graph.step(full(texts[torch.arange(3), at][:, None]))
    assert not graph.possible


def test_a_model_whose_capture_fails_is_not_captured_again(caplog):
    class Failing(Simulated):
        def without_waits(self):
            return nullcontext()

    waiting, batch = made("decoder-only")
    expected, _ = searched(waiting, batch, Greedy(), 4)
    forward = waiting.decoder.final_norm.forward
    waiting.decoder.final_norm.forward = lambda x: forward(x) if x.isfinite().all() else x
    with caplog.at_level(logging.INFO):
        for attempts in (1, 0):
            found, session = searched(waiting, batch, Greedy(), 4, Failing)
            assert found == expected
            assert session._graph.attempts == attempts
    assert len(caplog.records) == 1


def test_a_model_with_hooks_is_computed_at_every_step():
    watched, batch = made("decoder-only")
    expected, session = searched(watched, batch, Greedy(), 4, Simulated)
    calls = []
    watched.decoder.final_norm.register_forward_hook(lambda *_: calls.append(1))
    found, seen = searched(watched, batch, Greedy(), 4, Simulated)
    assert found == expected
    assert session._graph.replays > 0 == seen._graph.replays
    assert len(calls) > session._graph.replays


@pytest.mark.parametrize("graph", [None, Simulated], ids=["computed", "replayed"])
def test_a_row_at_its_limit_stays_while_others_grow(graph):
    small, _ = made("decoder-only", position="learned", max_length=24)
    starts = Encoded(start=Ragged.of([[2, *range(5, 24)], [2, 5]]))
    batch = small.spec.architecture.collate(starts, small.level)
    limits = AllowedOutputs(24, max_length=23)
    expected, _ = searched(small, batch, Greedy(), 1, limits=limits)
    found, session = searched(small, batch, Greedy(), 8, graph, limits)
    assert found == expected
    assert graph is None or session._graph.replays > session._graph.captures
    assert session._past.end > 24
