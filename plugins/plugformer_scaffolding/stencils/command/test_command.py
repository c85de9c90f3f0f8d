"""The command, called as users call it."""

import json
import subprocess
import sys
from pathlib import Path

import plugformer


def test_every_parameter_is_counted_once(tmp_path: Path) -> None:
    """Of a model that was trained for a moment."""
    run = tmp_path / "run"
    plugformer.train("copying", overrides=["training.steps=1", "data.size=100"], out=run)
    arguments = ["new_component", str(run), "--depth", "2", "--json"]
    command = [sys.executable, "-m", "plugformer", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 (our own command)
    counts = json.loads(done.stdout)
    model = plugformer.load(run).model
    assert "encoder.layers" in counts
    assert sum(counts.values()) == sum(parameter.numel() for parameter in model.parameters())
