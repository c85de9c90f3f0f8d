"""A training that ends with an average: of what, how it is told, and that interruptions change nothing."""

import io
import json
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from rich.console import Console

from plugformer.errors import InterruptedRunError, RunError
from plugformer.hooks import hookimpl
from plugformer.runs.loading import load
from plugformer.runs.weights import load_tensors
from plugformer.training.train import resume
from plugformer_cli.progress import ProgressDisplay

LAST_TWO = ("training.average={checkpoints: 2}", "training.keep_checkpoints=9")


@dataclass(frozen=True)
class Averaged:
    """A finished run, what was observed, and what was on the screen."""

    directory: Path
    evaluations: list
    screen: str


class Watcher:
    def __init__(self):
        self.evaluations, self.averages = [], []

    @hookimpl
    def evaluation_ended(self, evaluation):
        self.evaluations.append(evaluation)

    @hookimpl
    def average_evaluated(self, run, steps, evaluation, single_best):
        self.averages.append((steps, evaluation, single_best))


@pytest.fixture(scope="module")
def averaged(train_tiny, tmp_path_factory):
    out, seen, screen = tmp_path_factory.mktemp("averaged") / "run", Watcher(), io.StringIO()
    train_tiny(out, *LAST_TWO, observers=[seen, ProgressDisplay(Console(file=screen, width=300))])
    return Averaged(out, [*seen.evaluations, *seen.averages], screen.getvalue())


@pytest.fixture(scope="module")
def whole(train_tiny, averaged, tmp_path_factory):
    """Finished runs, with the average of the last and of the best."""
    out = tmp_path_factory.mktemp("averaged") / "best"
    train_tiny(out, "training.average={checkpoints: 2, of: best}", LAST_TWO[1])
    return {"last": averaged.directory, "best": out}


def log(directory):
    records = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [
        {k: v for k, v in record.items() if k not in {"seconds", "tokens_per_second"}} for record in records
    ]


def assert_same_end(one, other):
    assert log(one) == log(other)
    mine, yours = (load_tensors(each / "model.safetensors") for each in (one, other))
    assert all(torch.equal(mine[name], yours[name]) for name in mine)
    assert {path.name for path in one.iterdir()} == {path.name for path in other.iterdir()}


def test_the_run_ends_with_the_mean_of_the_last_two(averaged):
    """Checkpoints are saved at evaluations, too: the mean of those two is computed here once more."""
    parts = [
        load_tensors(averaged.directory / f"checkpoints/step-{step:08d}/model.safetensors")
        for step in (8, 10)
    ]
    saved = load_tensors(averaged.directory / "model.safetensors")
    for name, tensor in saved.items():
        mean = torch.stack([part[name].double() for part in parts]).mean(dim=0)
        assert torch.equal(tensor, mean.to(tensor.dtype)), name
    assert not list(averaged.directory.glob("*candidates*"))


def test_the_average_stands_beside_the_single_best(averaged):
    *single, (steps, evaluation, best) = averaged.evaluations
    assert steps == [8, 10]
    assert best == min(each.loss for each in single)
    assert evaluation.best == (evaluation.loss < best)
    last = log(averaged.directory)[-1]
    assert last == {
        "event": "average",
        "step": 10,
        "loss": evaluation.loss,
        "token_accuracy": evaluation.token_accuracy,
        "exact_match": evaluation.metrics["exact_match"],
        "steps": [8, 10],
        "single_best": {"loss": best},
    }
    verdict = "better" if evaluation.best else "not better"
    (line,) = [line for line in averaged.screen.splitlines() if "average" in line]
    assert line.startswith(f"average of steps 8, 10  validation loss {evaluation.loss:.4f}")
    assert line.endswith(f"({verdict} than the single best: loss {best:.4f})")


def test_the_figures_are_those_of_the_saved_model(averaged):
    """What was logged about the average is what the saved run computes."""
    _, evaluation, _ = averaged.evaluations[-1]
    scores = load(averaged.directory).evaluate("validation").metrics
    assert scores["exact_match"]["value"] == evaluation.metrics["exact_match"]
    assert evaluation.loss != min(each.loss for each in averaged.evaluations[:-1])


def test_fewer_evaluations_than_asked_for(train_tiny, tmp_path):
    seen, screen = Watcher(), io.StringIO()
    settings = "training.average={checkpoints: 7, of: best}"
    train_tiny(tmp_path / "run", settings, observers=[seen, ProgressDisplay(Console(file=screen, width=300))])
    assert [steps for steps, _, _ in seen.averages] == [[4, 8, 10]]
    assert "average of steps 4, 8, 10 (7 asked for, there were no more)" in screen.getvalue()


class Killer:
    """Ends the process, as far as the run can see, when a hook is called; no handler runs."""

    def __init__(self, hook, step):
        self.hook, self.step = hook, step

    def at(self, hook, step):
        if (self.hook, self.step) == (hook, step):
            raise KeyboardInterrupt

    @hookimpl(trylast=True)
    def step_ended(self, update):
        self.at("step_ended", update.step)

    @hookimpl(trylast=True)
    def evaluation_ended(self, evaluation):
        self.at("evaluation_ended", evaluation.step)

    @hookimpl(trylast=True)
    def average_evaluated(self, evaluation):
        self.at("average_evaluated", evaluation.step)


@pytest.mark.parametrize("of", ["last", "best"])
@pytest.mark.parametrize(
    "killed",
    [
        ("step_ended", 7),
        ("evaluation_ended", 8),  # its candidate is on the disk, its checkpoint is not
        ("evaluation_ended", 10),
        ("average_evaluated", 10),  # saved and logged, the candidates not yet removed
    ],
)
def test_killed_and_resumed_equals_uninterrupted(train_tiny, whole, tmp_path, killed, of):
    settings = ("training.average.checkpoints=2", f"training.average.of={of}", LAST_TWO[1])
    with pytest.raises(KeyboardInterrupt):
        train_tiny(tmp_path / "run", *settings, observers=[Killer(*killed)])
    resume(tmp_path / "run", notify=str)
    assert_same_end(tmp_path / "run", whole[of])


def test_interrupted_at_the_last_update(train_tiny, averaged, tmp_path):
    class Interrupter:
        @hookimpl
        def step_ended(self, update):
            if update.step == 10:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(InterruptedRunError):
        train_tiny(tmp_path / "run", *LAST_TWO, observers=[Interrupter()])
    found, expected = (
        load_tensors(run / "model.safetensors") for run in (tmp_path / "run", averaged.directory)
    )
    assert all(torch.equal(found[name], expected[name]) for name in expected), "the average is there already"
    resume(tmp_path / "run", notify=str)
    assert_same_end(tmp_path / "run", averaged.directory)


def test_a_finished_run_keeps_its_average(averaged, tmp_path):
    copy = Path(shutil.copytree(averaged.directory, tmp_path / "copy"))
    seen = Watcher()
    resume(copy, observers=[seen], notify=str)
    assert seen.averages == []
    assert_same_end(copy, averaged.directory)


def test_going_on_from_the_checkpoint_before_a_damaged_one(averaged, train_tiny, tmp_path):
    """Candidates that were dropped meanwhile are replaced by those that are made again."""
    with pytest.raises(KeyboardInterrupt):
        train_tiny(tmp_path / "run", *LAST_TWO, observers=[Killer("average_evaluated", 10)])
    for step in (8, 10):
        shutil.rmtree(tmp_path / "run" / f"checkpoints/step-{step:08d}")
    at_the_start = []

    class Looker:
        @hookimpl
        def run_started(self, run):
            at_the_start.extend((run.directory / "candidates").iterdir())

    resume(tmp_path / "run", observers=[Looker()], notify=str)
    assert at_the_start == []
    assert_same_end(tmp_path / "run", averaged.directory)


def test_an_ended_run_whose_last_checkpoint_is_damaged(averaged, tmp_path):
    """What was to be averaged is gone: to go on from the checkpoint before would end with another model."""
    out = Path(shutil.copytree(averaged.directory, tmp_path / "run"))
    (out / "checkpoints/step-00000010/state.json").write_text("{}")
    with pytest.raises(
        RunError, match=r"none of the parameters that were to be averaged: .* back at update 8"
    ):
        resume(out, notify=str)
