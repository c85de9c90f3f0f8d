"""Steps replayed from a graph give what computed ones do; the graph is simulated on the CPU.

The simulation records the operators of a step and calls them again with the same tensors, so that what
changes from step to step in Python, and not in a tensor, makes wrong outputs.
"""

import logging

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
from torch.utils._python_dispatch import TorchDispatchMode

import plugformer
from plugformer.interfaces import Encoded, Ragged, Session, evaluating
from plugformer.interfaces.step_graph import StepGraph
from plugformer_plugins.decoding.beam import Beam
from plugformer_plugins.decoding.sampling import Greedy, Sampling

WAITING = {"aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::equal"}


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
        super().__init__(stepping, past, self.record)
        self.captures = self.replays = 0

    def record(self, run):
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


def searched(searcher, batch, search, every, graph=None):
    with evaluating(searcher):
        session = Session(searcher, batch, AtMost([24, 24, 20, 24]), [0, 1, 2, 3])
        session.every = every
        if graph is not None:
            session._graph = graph(searcher, session._past)
        found = search.search(session)
    return [[(each.tokens, pytest.approx(each.score, abs=1e-3)) for each in one] for one in found], session


@pytest.fixture(autouse=True)
def small_bucket(monkeypatch):
    monkeypatch.setattr("plugformer.model.decoder.BUCKET", 8)


def made(architecture, attention="mha", position="rope"):
    small = plugformer.create_model(
        architecture,
        vocabulary=40,
        width=32,
        heads=4,
        layers=2,
        position=position,
        attention=attention,
        feed_forward="swiglu",
        max_length=64,
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
@pytest.mark.parametrize(("attention", "position"), [("gqa", "rope"), ("mla", "t5"), ("mha", "alibi")])
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


def test_a_step_that_waits_is_computed_without_a_graph(caplog):
    waiting, batch = made("decoder-only")
    expected, _ = searched(waiting, batch, Greedy(), 4)
    forward = waiting.decoder.final_norm.forward
    waiting.decoder.final_norm.forward = lambda x: forward(x) if x.isfinite().all() else x
    with caplog.at_level(logging.INFO):
        found, session = searched(waiting, batch, Greedy(), 4, Simulated)
    assert found == expected
    assert session._graph.replays == 0
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
