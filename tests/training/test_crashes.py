"""A training that is killed at random, inside writes too, ends with the same files as one that was not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("crashes.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the program forks")
@pytest.mark.parametrize("kills", [3, pytest.param(25, marks=pytest.mark.long)])
def test_killed_and_resumed_again_and_again(tmp_path, kills):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path / "runs"), str(kills)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] == sum(found["moments"].values()) == kills
    assert found["files"] > 10
    assert found["differing"] == []
