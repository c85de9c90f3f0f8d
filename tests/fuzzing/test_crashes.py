"""A training that is killed again and again, also while it writes, ends with the same files."""

import json
import os
from pathlib import Path

import pytest
from tests.forking import run

PROGRAM = Path(__file__).with_name("crashes.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the program forks")
@pytest.mark.parametrize(
    "kills", [pytest.param(3, marks=pytest.mark.brief), pytest.param(25, marks=pytest.mark.long)]
)
def test_a_training(kills, tmp_path):
    process = run(str(PROGRAM), str(tmp_path / "runs"), str(kills))
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    assert result["kills"] == sum(result["moments"].values()) == kills
    assert result["files"] > 10
    assert result["differing"] == []
