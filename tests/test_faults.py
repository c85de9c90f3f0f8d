"""Exceptions of parts at run time: the part, its place in the model and the line in its file are named."""

import os

import pytest
import torch

from plugformer.configuration import check_components, resolve
from plugformer.errors import RegistryError
from plugformer.experiment import Experiment
from plugformer.faults import cause_of
from plugformer.hooks.manager import HookManager, load_observers
from plugformer.interfaces import Batch, Sizes
from plugformer.kinds import Kind
from plugformer.model import build

PARTS = """
import sys

import torch

from plugformer.interfaces import FeedForward, OutputMetric, Schedule, Tokenizer
from plugformer_plugins.decoding.sampling import Greedy
from plugformer_plugins.optimizer.adam import AdamW


class Raises(FeedForward):
    def __init__(self, model, *, leave: bool = False) -> None:
        super().__init__()
        self.leave = leave

    def forward(self, x):
        return self.helped(x)

    def helped(self, x):
        if self.leave:
            sys.exit(0)
        return _missing()


def _missing():
    return {}["missing"]


class Evil(FeedForward):
    def __init__(self, model) -> None:
        super().__init__()

    def __getattr__(self, name):
        raise ValueError("not mine")

    def forward(self, x):
        return self.absent


class Silent(Exception):
    def __str__(self):
        raise ValueError


class Bad(OutputMetric):
    def statistics(self, predictions, references):
        raise Silent

    def aggregate(self, statistics):
        return 0.0


class Flat(Schedule):
    def factor(self, step, *, steps, width):
        raise EOFError("no more")


class Stuck(torch.optim.SGD):
    def step(self):
        raise IndexError("3")


class Steps(AdamW):
    def build(self, parameters):
        return Stuck([each for _, each in parameters], lr=1.0)


class Pipe(Schedule):
    def factor(self, step, *, steps, width):
        raise BrokenPipeError(32, "Broken pipe")


class Search(Greedy):
    def search(self, session):
        raise TypeError("no beams")
"""
HOOKS = """
import sys

from plugformer.hooks import hookimpl

@hookimpl
def run_ended(run):
    sys.exit(0)

def must():
    return {}["missing"]
"""
MANIFEST = """
components:
  feed_forward:
    raises: {class: "parts_of_fault_tests:Raises"}
    evil: {class: "parts_of_fault_tests:Evil"}
  metric: {bad: {class: "parts_of_fault_tests:Bad"}}
  schedule: {flat: {class: "parts_of_fault_tests:Flat"}, pipe: {class: "parts_of_fault_tests:Pipe"}}
  optimizer: {steps: {class: "parts_of_fault_tests:Steps"}}
  decoding: {search: {class: "parts_of_fault_tests:Search"}}
hooks: [hooks_of_fault_tests]
"""


@pytest.fixture(scope="module")
def parts(registry, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    (folder / "parts_of_fault_tests.py").write_text(PARTS)
    (folder / "hooks_of_fault_tests.py").write_text(HOOKS)
    (folder / "registry.yaml").write_text(MANIFEST)
    return registry.with_local(folder / "registry.yaml")


def caught(action) -> BaseException:
    with pytest.raises(BaseException) as found:
        action()
    return found.value


@pytest.fixture
def fault(parts, sentences, short_settings):
    """Trains on one batch with some settings, which fails, and returns the cause in words."""

    def fault(*overrides: str) -> str:
        task = check_components(resolve("dates", short_settings(*overrides), parts)).task
        model = build(Experiment.of(task, parts).spec, Sizes(12, 12))
        batch = Batch(sentences(), target=sentences(begin=True))
        return str(cause_of(caught(lambda: model(batch))))

    return fault


def test_the_place_in_the_model_and_the_line_are_named(fault):
    message = fault("model.decoder.feed_forward=raises")
    first, second = message.splitlines()
    assert first == (
        "feed_forward 'raises' (local) at model.decoder.layers.0.feed_forward failed: KeyError: 'missing'"
    )
    assert "parts_of_fault_tests.py:" in second
    assert second.endswith("(_missing)")


def test_a_part_that_leaves_is_named(fault):
    message = fault("model.feed_forward={name: raises, leave: true}")
    assert message.startswith(
        "feed_forward 'raises' (local) at model.encoder.layers.0.feed_forward failed: SystemExit"
    )


def test_a_module_whose_attributes_raise(parts):
    evil = parts.load(Kind.FEED_FORWARD, "evil")
    module = evil.__new__(evil)
    cause = cause_of(caught(lambda: module.forward(torch.zeros(1))))
    assert cause.startswith("feed_forward 'evil' (local) failed: ValueError: not mine\nraised in ")


def test_parts_that_are_no_modules(parts):
    metric, schedule = parts.create(Kind.METRIC, "bad"), parts.create(Kind.SCHEDULE, "flat")
    search = parts.create(Kind.DECODING, "search")
    assert cause_of(caught(lambda: metric.statistics([], []))).startswith(
        "metric 'bad' (local) failed: Silent: its message cannot be shown\n"
    )
    assert cause_of(caught(lambda: schedule.factor(1, steps=1, width=1))).startswith(
        "schedule 'flat' (local) failed: EOFError: no more\n"
    )
    assert cause_of(caught(lambda: search.search(None))).startswith(
        "decoding 'search' (local) failed: TypeError: no beams\n"
    )


def test_a_pipe_of_a_part_is_not_standard_output(parts, monkeypatch):
    schedule = parts.create(Kind.SCHEDULE, "pipe")
    error = caught(lambda: schedule.factor(1, steps=1, width=1))
    assert cause_of(error).startswith("schedule 'pipe' (local) failed: BrokenPipeError: ")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as unread:
        monkeypatch.setattr("sys.stdout", unread)
        unread.write("to nobody")
        assert cause_of(error) is None
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


def test_memory_that_runs_out_at_an_import_is_that_of_the_plugin(registry, tmp_path):
    (tmp_path / "greedy_of_fault_tests.py").write_text("raise MemoryError")
    (tmp_path / "registry.yaml").write_text("components: {norm: {big: {class: 'greedy_of_fault_tests:Big'}}}")
    with pytest.raises(
        RegistryError, match=r"norm 'big' .*importing greedy_of_fault_tests failed: MemoryError"
    ):
        registry.with_local(tmp_path / "registry.yaml").load(Kind.NORM, "big")


def test_what_a_part_has_made_is_named_by_its_distribution(parts):
    linear = torch.nn.Linear(1, 1)
    optimizer = parts.create(Kind.OPTIMIZER, "steps", lr=1.0).build(linear.named_parameters())
    assert cause_of(caught(optimizer.step)).startswith("a part of local failed: IndexError: 3\nraised in ")


def test_what_comes_from_no_part_has_no_cause():
    assert cause_of(caught(lambda: 1 / 0)) is None


def test_a_hook_that_leaves_is_switched_off_and_one_that_must_not_fail_is_named(parts):
    said = []
    (module,) = [each for each in load_observers(parts.hooks(), said.append) if "fault" in each.__name__]
    HookManager([module], said.append).call("run_ended", run=None)
    assert said[0].endswith("is switched off: its run_ended raised SystemExit: 0")
    assert cause_of(caught(lambda: module.must())).startswith("hooks 'hooks_of_fault_tests' (local) failed")
