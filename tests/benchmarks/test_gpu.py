"""`benchmarks/gpu.py` measures every system, here with tiny sizes."""

import importlib
import sys
from pathlib import Path

import pytest

from plugformer.hooks import hookimpl, must_not_fail

pytest.importorskip("transformers")

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch):
    """The benchmark; its modules import each other as scripts do."""
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # the benchmark sets it
    return importlib.import_module("gpu")


def number_of_parameters(model):
    return sum(each.numel() for each in model.parameters() if each.requires_grad)


def tables(text):
    """Returns the rows of tables in Markdown, as lists of cells."""
    lines = [line for line in text.splitlines() if line.startswith("|") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_tiny_sizes_measure_every_system_and_say_so(gpu, capsys):
    gpu.main(gpu.TINY)
    out = capsys.readouterr().out
    assert "Tiny sizes: the figures say nothing." in out
    names, *trainings = [row for row in tables(out) if len(row) == 7]
    assert names[:2] == ["model", "system"]
    assert [row[0] for row in trainings] == ["language model"] * 4 + ["encoder-decoder"] * 2
    for _, _, rate, milliseconds, _, _, first in trainings:
        assert min(float(rate.replace(",", "")), float(milliseconds)) > 0
        assert float(first) >= 0
    names, *searches = [row for row in tables(out) if len(row) == 6]
    assert [row[:2] for row in searches] == [[kind, n] for kind in ("greedy", "beam 5") for n in "13"]
    assert all(float(cell) > 0 for row in searches for cell in row[2:])


def test_searches_are_of_as_many_steps(gpu, tmp_path):
    models = sys.modules["gpu_models"]
    some = models.sentences(gpu.TINY)[:3]
    for name, system in models.searches(gpu.TINY, tmp_path).items():
        outputs = system(some, 2, gpu.TINY.steps)()
        # Plugformer's have no END, Marian's begin with BEGIN.
        expected = gpu.TINY.steps + (-1 if "Plugformer" in name else 1)
        assert [len(output) for output in outputs] == [expected] * 3


@pytest.mark.parametrize(
    ("model", "peer"),
    [("language_model", "a page written by hand"), ("encoder_decoder", "Marian (transformers)")],
)
def test_plugformer_has_the_parameters_and_the_targets_of_its_peer(gpu, model, peer):
    models = sys.modules["gpu_models"]

    class Counting(gpu.Stopwatch):
        targets = parameters = 0

        @hookimpl
        @must_not_fail
        def run_started(self, run):
            self.parameters = number_of_parameters(run.model)
            super().run_started()

        @hookimpl
        @must_not_fail
        def step_ended(self, update):
            self.targets += update.targets
            super().step_ended(update)

    watch, training = Counting(warm_up=1, updates=models.EPOCH - 1, rounds=1), getattr(gpu, model)(gpu.TINY)
    with pytest.raises(gpu.Measured):
        training.systems["Plugformer"](watch)
    assert watch.targets == models.EPOCH * training.tokens
    build, *_ = training.systems[peer].args
    assert watch.parameters == number_of_parameters(build())
