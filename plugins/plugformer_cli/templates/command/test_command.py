"""A test of the command as users call it."""

import json
import subprocess
import sys
from pathlib import Path

import plugformer


def test_every_parameter_is_counted_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    plugformer.train("copying", overrides=["training.steps=1", "data.size=100"], out=run)
    command = [sys.executable, "-m", "plugformer", "new_component", str(run), "--json"]
    counts = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    parameters = plugformer.load(run).model.parameters()
    assert sum(counts.values()) == sum(parameter.numel() for parameter in parameters)
