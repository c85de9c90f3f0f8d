"""A training that ends with an average: of what, how it is told, and that interruptions change nothing."""

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.training.interrupted import Killer, assert_same_end, logged

from plugformer.hooks import Run, hookimpl
from plugformer.runs.loading import load
from plugformer.runs.store import load_tensors, save_tensors
from plugformer.training.train import resume
from plugformer_cli.progress import ProgressDisplay
from plugformer_plugins.callback.average_checkpoints import AverageCheckpoints, mean_tensors

LAST_TWO = ("training.callbacks=[{name: average_checkpoints, checkpoints: 2}]", "training.keep_checkpoints=9")


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
    train_tiny(out, *LAST_TWO, callbacks=[seen, ProgressDisplay(Console(file=screen, width=300))])
    return Averaged(out, [*seen.evaluations, *seen.averages], screen.getvalue())


@pytest.fixture(scope="module")
def whole(train_tiny, averaged, tmp_path_factory):
    """Finished runs, with the average of the last and of the best."""
    out = tmp_path_factory.mktemp("averaged") / "best"
    train_tiny(out, "training.callbacks=[{name: average_checkpoints, checkpoints: 2, of: best}]", LAST_TWO[1])
    return {"last": averaged.directory, "best": out}


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


def test_the_average_stands_beside_the_single_best(averaged):
    *single, (steps, evaluation, best) = averaged.evaluations
    assert steps == [8, 10]
    assert best == min(each.loss for each in single)
    assert evaluation.best == (evaluation.loss < best)
    last = logged(averaged.directory)[-1]
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


@pytest.mark.parametrize("of", ["last", "best"])
@pytest.mark.parametrize(
    "killed",
    [
        (7, "step_ended"),
        (8, "evaluation_ended"),  # its parameters are on the disk, its checkpoint is not
        (10, "evaluation_ended"),
        (10, "average_evaluated"),  # saved and logged
    ],
)
def test_killed_and_resumed_equals_uninterrupted(train_tiny, whole, tmp_path, killed, of):
    settings = (f"training.callbacks=[{{name: average_checkpoints, checkpoints: 2, of: {of}}}]", LAST_TWO[1])
    with pytest.raises(KeyboardInterrupt):
        train_tiny(tmp_path / "run", *settings, callbacks=[Killer(*killed)])
    resume(tmp_path / "run", notify=str)
    assert_same_end(tmp_path / "run", whole[of])


@pytest.mark.parametrize(
    ("of", "ranks", "expected"),
    [
        ("last", [1.0, 2.0, 3.0, 4.0], [3, 4]),
        ("last", [1.0], [1]),
        ("best", [3.0, 1.0, 2.0, 4.0], [2, 3]),
        ("best", [1.0, 2.0, 2.0, 2.0], [1, 2]),  # the first of equals, like the single best
    ],
)
def test_only_files_that_can_still_be_needed_are_kept(tmp_path, of, ranks, expected):
    hook, run = AverageCheckpoints(checkpoints=2, of=of), Run(tmp_path, None, torch.nn.Linear(1, 1), 9, 9)
    for step, value in enumerate(ranks, start=1):
        hook.model_evaluated(run, step, (False, value, 1.0))
        hook.checkpoint_saved(run)
    names = [f"step-{step:08d}.safetensors" for step in expected]
    assert sorted(path.name for path in (tmp_path / "averaging").iterdir()) == names
    assert hook.averaged_parameters(run)[0] == expected


def test_the_mean_is_computed_in_float64_and_counters_are_those_of_the_last(tmp_path):
    """In float16, 2048 + 1 is 2048: sums would lose small numbers."""
    paths = [tmp_path / f"{number}.safetensors" for number in range(3)]
    for number, (path, value) in enumerate(zip(paths, [2048.0, 1.0, 1.0], strict=True)):
        weight = torch.tensor([value], dtype=torch.float16)
        save_tensors({"weight": weight, "seen": torch.tensor(number)}, path)
    mean = mean_tensors(paths)
    assert mean["weight"].dtype == torch.float16
    assert mean["weight"].item() == np.float16(2050 / 3)
    assert mean["seen"] == 2
