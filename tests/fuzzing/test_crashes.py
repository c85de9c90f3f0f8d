"""What is killed at random, inside writes too, and begun again ends with the same files as what was not."""

import json
import os
from pathlib import Path

import pytest
from tests.forking import run

PROGRAM = Path(__file__).with_name("crashes.py")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the program forks")


KILLS = pytest.mark.parametrize(
    "kills", [pytest.param(3, marks=pytest.mark.brief), pytest.param(25, marks=pytest.mark.long)]
)


def killed(what, folder, kills):
    done = run(str(PROGRAM), what, str(folder / "runs"), str(kills))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == sum(found["moments"].values()) == kills
    assert found["files"] > 10
    assert found["differing"] == []
    return found


@KILLS
def test_a_training(kills, tmp_path):
    killed("training", tmp_path, kills)


@pytest.mark.long
def test_a_study(tmp_path):
    """A finished cell is not run again."""
    assert killed("study", tmp_path, 25)["lost"] == 0


@KILLS
def test_predictions(kills, tmp_path):
    """What has been answered until then is a beginning of all answers, and the run is as it was."""
    assert killed("prediction", tmp_path, kills)["answers"] == 100
