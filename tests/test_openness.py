"""Nobody asks which type of task or which architecture they have: what they are, the components say.

A question of that kind would exclude those that others write.
"""

import ast
import builtins
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

from plugformer.interfaces import Architecture, Model, TaskType
from plugformer.registry import Kind, Registry

ROOT = Path(__file__).resolve().parents[1]
NAMED = (Kind.TASK_TYPE, Kind.ARCHITECTURE)
EXCEPT = (
    *(f"plugins/plugformer_plugins/{kind}" for kind in NAMED),
    "plugins/plugformer_transformers/families",  # says what the models of others are called here
)
CONTRACT = ROOT / "plugins/plugformer_testing/architecture.py"
"""Asks whether what an architecture builds is a model at all, and one that can generate."""


def modules() -> list[Path]:
    """Returns the modules that may know no type of task and no architecture."""
    files = [file for root in ("core", "plugins") for file in (ROOT / root).rglob("*.py")]
    return [file for file in files if not file.relative_to(ROOT).as_posix().startswith(EXCEPT)]


def constants(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yields the strings of a module that are no docstrings."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node


def named(source: str, names: set[str]) -> list[str]:
    """Returns the strings in a source that are one of some names, with their lines."""
    found = constants(ast.parse(source))
    return [f"{node.lineno}: {node.value!r}" for node in found if node.value in names]


def asked(source: str, scope: dict[str, object]) -> list[str]:
    """Returns the questions in a source whether something is of a closed class, with their lines.

    Args:
        source: Python.
        scope: What its names stand for.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            classes = [getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(node.args[1])]
        elif isinstance(node, ast.MatchClass):
            classes = [getattr(node.cls, "id", getattr(node.cls, "attr", ""))]
        else:
            continue
        for name in classes:
            meant = scope.get(name, getattr(builtins, name, None))
            if inspect.isclass(meant) and issubclass(meant, Model | TaskType | Architecture):
                found.append(f"{node.lineno}: {name}")
    return found


def test_no_type_of_task_and_no_architecture_is_named() -> None:
    registry = Registry.discover()
    names = {entry.name for kind in NAMED for entry in registry.entries(kind)}
    assert len(names) >= 4
    found = {file: named(file.read_text(encoding="utf-8"), names) for file in modules()}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_nobody_asks_for_a_kind_of_model() -> None:
    found = {}
    for file in modules():
        source = file.read_text(encoding="utf-8")
        if any(word in source for word in ("isinstance", "issubclass", "match ")):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts[1:]).removesuffix(".__init__")
            found[file] = asked(source, vars(importlib.import_module(name)))
    assert len(found) > 20
    assert {line.partition(": ")[2] for line in found.pop(CONTRACT)} <= {"Model", "Generative"}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_a_name_and_a_question_would_be_found() -> None:
    assert named(
        '"""classification"""\nif task.type.name == "classification":\n    pass', {"classification"}
    ) == ["2: 'classification'"]
    scope = {"Model": Model, "architecture": inspect.getmodule(Architecture), "Architecture": Architecture}
    assert asked("isinstance(x, str | Model)", scope) == ["1: Model"]
    assert asked("issubclass(x, (int, interfaces.Architecture))", scope) == ["1: Architecture"]
    assert asked("match x:\n    case Model():\n        pass", scope) == ["2: Model"]
    assert asked("isinstance(x, str)", scope) == []
