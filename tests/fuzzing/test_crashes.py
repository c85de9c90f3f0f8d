"""A training that is killed again and again, also while it writes, ends with the same files."""

import json
import os
from pathlib import Path

import pytest
from tests.forking import run

PROGRAM = Path(__file__).with_name("crashes.py")
KILLS = 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the program forks")
def test_a_training(tmp_path):
    process = run(str(PROGRAM), str(tmp_path / "runs"), str(KILLS))
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    assert result["kills"] == sum(result["moments"].values()) == KILLS
    assert result["files"] > 10
    assert result["differing"] == []
