"""Generated sections are fresh, and nothing that they should name is missing."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import typer

from plugformer.commands.main import app
from plugformer.hooks.specification import Hooks, TrainingHooks
from plugformer.kinds import Kind
from plugformer.registry import Registry

ROOT = Path(__file__).resolve().parents[2]
GENERATE = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]


def headings(page: str, level: int) -> list[str]:
    """Returns the headings of a page of the reference."""
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    return re.findall(rf"^{'#' * level} (.+)$", text, re.MULTILINE)


def test_generated_sections_are_fresh() -> None:
    done = subprocess.run(GENERATE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_component_and_no_other_has_a_heading() -> None:
    registered = [f"{entry.kind}/{entry.name}" for entry in Registry.discover().entries()]
    assert headings("components.md", 3) == registered


def test_every_kind_has_a_contract() -> None:
    assert set(headings("contracts.md", 2)) >= {kind.value for kind in Kind}


def test_every_hook_and_no_other_has_a_heading() -> None:
    hooks = [name for name in (*vars(Hooks), *vars(TrainingHooks)) if not name.startswith("_")]
    described = headings("hooks.md", 3)
    assert described[: len(hooks)] == hooks
    assert not [name for name in described[len(hooks) :] if name.islower()]


def test_every_command_and_no_other_has_a_heading() -> None:
    core = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # it is a group
    commands = [*core, *(entry.name for entry in Registry.built_in().commands())]
    assert headings("commands.md", 2) == [f"plugformer {name}" for name in commands]


def test_every_public_name_and_no_other_is_described() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    for package in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        module, _, table = package.partition("\n")
        if "__all__" in vars(loaded := importlib.import_module(module)):
            named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
            assert sorted(named) == sorted(name for name in loaded.__all__ if not name.startswith("_"))
