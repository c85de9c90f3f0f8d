"""A run goes on for more updates than its task said: exactly, and recorded."""

import json

import pytest

from plugformer.commands.main import main
from plugformer.errors import ConfigurationError, RunError
from plugformer.runs.checkpoint import newest_step
from plugformer.runs.loading import load
from plugformer.runs.weights import load_tensors
from plugformer.training.train import resume

LAST = "checkpoints/step-00000012/{}.safetensors"


def test_more_updates_end_as_if_there_had_always_been_so_many(run_copy, train_tiny, tmp_path, registry):
    notices = []
    resume(run_copy, overrides=["training.steps=12"], registry=registry, notify=notices.append)
    assert "resumed after update 10 of 12" in notices
    train_tiny(tmp_path / "straight", "training.steps=12")
    for part in ("model", "optimizer"):
        found, expected = (load_tensors(run / LAST.format(part)) for run in (run_copy, tmp_path / "straight"))
        assert found.keys() == expected.keys()
        assert all(found[name].equal(expected[name]) for name in expected)
    assert load(run_copy).task.training.steps == 12
    lock = json.loads((run_copy / "lock.json").read_text())
    assert lock["changes"] == ["training: 10 -> 12 updates, after update 10"]
    assert not any("schedule" in notice for notice in notices)  # a constant one is the same


def test_epochs_take_the_place_of_updates(run_copy, registry):
    resume(run_copy, overrides=["training.epochs=2"], registry=registry, notify=str)
    assert (load(run_copy).task.training.epochs, load(run_copy).task.training.steps) == (2, None)
    assert newest_step(run_copy / "checkpoints") == 14


def test_a_schedule_that_depends_on_the_number_is_named(run_copy, registry):
    task = run_copy / "task.yaml"
    task.write_text(task.read_text().replace("name: constant", "name: warmup_cosine"))
    notices = []
    resume(
        run_copy,
        overrides=["training.steps=11"],
        allow_changes=True,
        registry=registry,
        notify=notices.append,
    )
    assert any(
        "up to update 10 the learning rate was that of 10 updates, from now on" in each for each in notices
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "training.seed=2",
            r"training\.seed: cannot be changed with --resume, only training\.epochs or train",
        ),
        ("training={steps: 20, seed: 2}", r"training\.seed: cannot be changed"),
        ("model.width=32", r"model\.width: cannot be changed.*\n.*were made with the run's own"),
        ("training.steps=9", "has made 10 updates already, 9 are fewer"),
        ("training.epochs=1", "has made 10 updates already, 7 are fewer"),
    ],
)
def test_everything_else_is_refused_and_changes_nothing(run_copy, registry, setting, message):
    before = (run_copy / "task.yaml").read_text(), (run_copy / "lock.json").read_text()
    with pytest.raises(ConfigurationError, match=message):
        resume(run_copy, overrides=[setting], registry=registry, notify=str)
    assert ((run_copy / "task.yaml").read_text(), (run_copy / "lock.json").read_text()) == before


def test_an_average_that_has_been_made_is_not_made_again(run_copy, registry):
    task = run_copy / "task.yaml"
    task.write_text(task.read_text().replace("training:\n", "training:\n  average:\n    checkpoints: 2\n"))
    with pytest.raises(RunError, match="parameters that its average is made of are gone"):
        resume(run_copy, overrides=["training.steps=12"], registry=registry, notify=str)
    assert "steps: 10" in task.read_text()


def test_the_command_hands_it_over(run_copy, capsys):
    with pytest.raises(SystemExit) as left:
        main(["train", "--resume", "--out", str(run_copy), "--set", "training.stpes=12"])
    assert left.value.code == 2
    assert "training.stpes: cannot be changed with --resume" in capsys.readouterr().err
