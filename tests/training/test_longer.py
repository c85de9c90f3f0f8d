"""A run goes on for more updates than its task said: exactly, and recorded."""

import json
import shutil
from pathlib import Path

import pytest
from tests.training.interrupted import assert_same_tensors, logged

from plugformer.errors import ConfigurationError
from plugformer.runs.directory import RunDirectory
from plugformer.runs.loading import load
from plugformer.training.train import resume


def test_more_updates_end_as_if_there_had_always_been_so_many(run_copy, train_tiny, tmp_path, registry):
    notices = []
    resume(run_copy, overrides=["training.steps=12"], registry=registry, notify=notices.append)
    assert "resumed after update 10 of 12" in notices
    train_tiny(tmp_path / "straight", "training.steps=12")
    assert_same_tensors(run_copy, tmp_path / "straight")
    assert load(run_copy).task.training.steps == 12
    lock = json.loads((run_copy / "lock.json").read_text())
    assert lock["changes"] == ["training.steps=12 after update 10"]


@pytest.mark.parametrize("overrides", ["training.epochs=2", {"training": {"epochs": 2}}])
def test_epochs_take_the_place_of_updates(run_copy, registry, overrides):
    resume(run_copy, overrides=overrides, registry=registry, notify=str)
    assert (load(run_copy).task.training.epochs, load(run_copy).task.training.steps) == (2, None)
    assert RunDirectory(run_copy).progress().step == 14
    assert RunDirectory(run_copy).read_lockfile()["changes"] == ["training.epochs=2 after update 10"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training={steps: 20, seed: 2}", r"training\.seed: cannot be changed here, only training\.epochs"),
        ("model.width=32", r"model\.width: cannot be changed.*\n.*train a new run"),
        ("training.epochs=1", "has made 10 updates already, 7 are fewer"),
    ],
)
def test_everything_else_is_refused_and_changes_nothing(run_copy, registry, setting, message):
    before = (run_copy / "task.yaml").read_text(), (run_copy / "lock.json").read_text()
    with pytest.raises(ConfigurationError, match=message):
        resume(run_copy, overrides=[setting], registry=registry, notify=str)
    assert ((run_copy / "task.yaml").read_text(), (run_copy / "lock.json").read_text()) == before


RISING = (
    "training.optimizer.lr=0.3",  # with which the loss rises now and then
    "training.evaluate_every=2",
    "training.steps=30",
    "training.keep_checkpoints=99",
)


@pytest.fixture(scope="module")
def ended_early(train_tiny, tmp_path_factory):
    """A run that early stopping has ended; tests copy it."""
    out = tmp_path_factory.mktemp("early") / "run"
    train_tiny(out, *RISING, "training.early_stopping.patience=1")
    assert RunDirectory(out).progress().step < 30
    return out


def test_early_stopping_that_has_ended_a_run_is_named(ended_early, registry, tmp_path):
    out = Path(shutil.copytree(ended_early, tmp_path / "run"))
    notices = []
    resume(out, overrides=["training.steps=40"], registry=registry, notify=notices.append)
    (notice,) = [each for each in notices if "early stopping" in each]
    assert notice.endswith("--set training.early_stopping.patience=2")
    assert RunDirectory(out).progress().step == RunDirectory(ended_early).progress().step


def test_more_patience_ends_as_if_there_had_always_been_so_much(ended_early, train_tiny, registry, tmp_path):
    setting = "training.early_stopping.patience=3"
    out = Path(shutil.copytree(ended_early, tmp_path / "run"))
    made = RunDirectory(out).progress().step
    resume(out, overrides=[setting], registry=registry, notify=str)
    train_tiny(tmp_path / "straight", *RISING, setting)
    found, expected = (RunDirectory(run).progress().step for run in (out, tmp_path / "straight"))
    assert made < found == expected
    assert_same_tensors(out, tmp_path / "straight")


def test_a_run_that_ended_with_an_average_can_train_longer(train_tiny, registry, tmp_path):
    hooks = "training.callbacks=[{name: average_checkpoints, checkpoints: 2}]"
    train_tiny(tmp_path / "run", hooks)
    resume(tmp_path / "run", overrides=["training.steps=12"], registry=registry, notify=str)
    assert logged(tmp_path / "run")[-1]["steps"] == [10, 12]  # the former end was evaluated, too
