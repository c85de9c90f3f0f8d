"""Generated sections are fresh, and nothing that they should name is missing."""

import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path

import pytest
import typer

import plugformer_blocks
from plugformer import interfaces
from plugformer.hooks import Hooks, TrainingHooks
from plugformer.registry import Kind, Registry, interface_of
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


CONTRACTS = ROOT / "docs" / "reference" / "contracts"


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_page_with_its_contract(kind: Kind) -> None:
    interface = interface_of(kind)
    page = (CONTRACTS / f"{kind}.md").read_text(encoding="utf-8")
    assert f"::: plugformer.interfaces.{interface.__name__}\n" in page
    for name in [name for name in vars(interface) if not name.startswith("_")]:
        assert re.search(rf"^    (def )?{name}\b", page, re.MULTILINE), "not in the page as a file"
    assert "constructed as" in (interface.__doc__ or "")


def test_every_public_name_of_the_interfaces_and_blocks_is_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in CONTRACTS.glob("*.md"))
    packages = r"plugformer(?:\.interfaces|_blocks)"
    described = set(re.findall(rf"^::: {packages}\.(\w+)$", pages, re.MULTILINE))
    described |= set(re.findall(r"`([A-Z]+)` = \d", pages))
    assert described == {*interfaces.__all__, *plugformer_blocks.__all__}


CLASSES = [cls for name in interfaces.__all__ if isinstance(cls := getattr(interfaces, name), type)]
FIELDS = [
    (cls, field)
    for cls in CLASSES
    if is_dataclass(cls) or hasattr(cls, "_fields")
    for field in inspect.get_annotations(cls)
    if not field.startswith("_")
]


def test_every_field_of_the_interfaces_is_described() -> None:
    """In a line of its own, in the class that the docstring refers to, or with few others in a sentence."""
    assert [f"{cls.__name__}.{field}" for cls, field in FIELDS if not is_described(cls, field)] == []


def is_described(cls: type, field: str) -> bool:
    doc = cls.__doc__ or ""
    docs = [doc, *(getattr(interfaces, name).__doc__ for name in re.findall(r"as in `(\w+)`", doc))]
    in_a_line = any(re.search(rf"^\s+{field}: \S", text, re.MULTILINE) for text in docs)
    return in_a_line or ("Attributes:" not in doc and len(inspect.get_annotations(cls)) <= 3)


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
    commands = [*core, *(entry.name for entry in Registry.built_in().entries("command"))]
    assert headings("commands.md", 2) == [f"plugformer {name}" for name in commands]


def test_every_public_name_and_no_other_is_described() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    for package in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        module, _, table = package.partition("\n")
        if "__all__" in vars(loaded := importlib.import_module(module)):
            named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
            assert sorted(named) == sorted(name for name in loaded.__all__ if not name.startswith("_"))
