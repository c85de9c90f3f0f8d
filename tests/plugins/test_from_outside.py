"""A plugin from outside of the repository adds a command and a hook, with documented names alone."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MANIFEST = """
plugformer: ">=0.1"
callbacks: [outside.hooks]
commands:
  slowest: "outside.slowest:command"
"""

HOOKS = '''
"""Keeps how long each update took, beside the run."""

from plugformer.hooks import Run, Update, hookimpl


@hookimpl
def step_ended(run: Run, update: Update) -> None:
    with (run.directory / "seconds.txt").open("a") as file:
        file.write(f"{update.step} {update.seconds}\\n")
'''

COMMAND = '''
"""The slowest update, and what the run is."""

import typer

from plugformer import load
from plugformer_cli import LocalManifest, RunPath, installed, print_text
from plugformer.errors import RunError
from plugformer.runs import RunDirectory

EXAMPLES = ("plugformer slowest runs/dates",)


def command(ctx: typer.Context, run: RunPath, registry: LocalManifest = None) -> None:
    """Show the slowest update of a run."""
    directory = RunDirectory.open(run)
    file = directory.path / "seconds.txt"
    if not file.exists():
        raise RunError(f"{file} is missing: train with this plugin installed")
    lines = [line.split() for line in file.read_text().splitlines()]
    step, _ = max(lines, key=lambda line: float(line[1]))
    print_text(f"update {step} of {len(lines)}, {load(run, installed(ctx, registry))}")
'''


def install(site: Path) -> None:
    """Writes what pip would have installed."""
    package = site / "outside"
    package.mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "registry.yaml": MANIFEST,
        "hooks.py": HOOKS,
        "slowest.py": COMMAND,
    }.items():
        (package / name).write_text(text)
    info = site / "plugformer_outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugformer-outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[plugformer]\noutside = outside\n")


def test_a_command_and_a_hook(tmp_path: Path) -> None:
    install(tmp_path / "site")
    paths = [str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PLUGFORMER_PLUGINS": "plugformer-outside",
    }

    def plugformer(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "plugformer", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    shown = plugformer("--help").stdout
    assert "slowest  Show the slowest update of a run. (plugformer-outside 1.0)" in shown
    assert "    plugformer slowest runs/dates" in plugformer("slowest", "--help").stdout
    short = ["--set=training.steps=3", "--set=data.size=100", "--set=data.held_out=20"]
    trained = plugformer("train", "copying", *short, "--out", "run")
    assert trained.returncode == 0, trained.stderr
    done = plugformer("slowest", "run")
    assert done.returncode == 0, done.stderr
    assert re.match(r"update [123] of 3, TrainedModel\(", done.stdout)
    (tmp_path / "run/seconds.txt").unlink()
    missing = plugformer("slowest", "run")
    assert (missing.returncode, missing.stdout) == (2, "")
    said = "Error: run/seconds.txt is missing: train with this plugin installed\n"
    assert missing.stderr.endswith(said)  # behind that it is still importing, where much else runs


def test_they_use_documented_names_alone() -> None:
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    for code in (HOOKS, COMMAND):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("plugformer"):
                table = page.partition(f"### {node.module}\n")[2].partition("###")[0]
                for alias in node.names:
                    assert f"| `{alias.name}` |" in table, f"{node.module}.{alias.name}"
                    assert hasattr(importlib.import_module(str(node.module)), alias.name)
