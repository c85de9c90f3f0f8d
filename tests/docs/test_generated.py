"""Generated sections are fresh, and nothing that they should name is missing."""

import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path

import pytest
import typer

from plugformer import interfaces
from plugformer.hooks.specification import Hooks, TrainingHooks
from plugformer.interfaces import Level, OutputType, Padding
from plugformer.kinds import Kind
from plugformer.registry import Registry
from plugformer_cli.main import app

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


def test_every_contract_says_how_components_are_constructed() -> None:
    text = (ROOT / "docs" / "reference" / "contracts.md").read_text(encoding="utf-8")
    sections = dict(
        zip(headings("contracts.md", 2), re.split(r"^## .+$", text, flags=re.MULTILINE)[1:], strict=True)
    )
    assert not [kind for kind in Kind if "constructed as" not in sections[kind.value]]


def test_every_public_name_of_the_interfaces_is_described() -> None:
    text = (ROOT / "docs" / "reference" / "contracts.md").read_text(encoding="utf-8")
    described = {*headings("contracts.md", 3), *re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)}
    described |= {
        name.rpartition(".")[2] for name in re.findall(r"^`(plugformer[\w.]+)`$", text, re.MULTILINE)
    }
    assert set(interfaces.__all__) - described == set()


CLASSES = {name: cls for name in interfaces.__all__ if isinstance(cls := getattr(interfaces, name), type)}
FIELDS = [
    (name, field)
    for name, cls in CLASSES.items()
    if is_dataclass(cls) or hasattr(cls, "_fields")
    for field in inspect.get_annotations(cls)
]


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_every_field_of_what_is_exchanged_is_described(name: str, field: str) -> None:
    text = (ROOT / "docs" / "reference" / "contracts.md").read_text(encoding="utf-8")
    section = re.split(r"^### ", text.partition(f"\n### {name}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    assert re.search(rf"^- `{field}: .+`: \S", section, re.MULTILINE)


@pytest.mark.parametrize("enumeration", [OutputType, Level, Padding], ids=lambda each: each.__name__)
def test_every_member_of_an_enumeration_is_described(enumeration: type[Enum]) -> None:
    text = (ROOT / "docs" / "reference" / "contracts.md").read_text(encoding="utf-8")
    missing = [
        each
        for each in enumeration
        if f'- `{enumeration.__name__}.{each.name} = "{each.value}"`: ' not in text
    ]
    assert not missing


def test_every_kind_has_a_built_in_to_read() -> None:
    page = (ROOT / "docs" / "write-a-component.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| .+ \| `plugins/.+` \|$", page, re.MULTILINE)
    assert rows == [kind.value for kind in Kind]


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
