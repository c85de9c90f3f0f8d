"""The names that plugins and commands may use, package by package, each with the first sentence about it."""

import ast
import importlib
from pathlib import Path

from generators.markdown import first_sentence, table

PACKAGES = (
    "plugformer",
    "plugformer.errors",
    "plugformer.registry",
    "plugformer.configuration",
    "plugformer.data",
    "plugformer.model",
    "plugformer.optimizer",
    "plugformer.validation",
    "plugformer.distributed",
    "plugformer.training",
    "plugformer.evaluation",
    "plugformer.experiment",
    "plugformer.runs",
    "plugformer.hooks",
    "plugformer.callbacks",
    "plugformer_cli",
    "plugformer_blocks",
)
"""What may be imported. Other modules inside of these are private."""


def public_names() -> str:
    """Returns a section for each package."""
    return "\n\n".join(_section(package) for package in PACKAGES if names_of(package))


def names_of(package: str) -> list[str]:
    """Returns the names that a package offers: its `__all__`, or everything public that a module defines."""
    module = importlib.import_module(package)
    offered = getattr(module, "__all__", None)
    found = _definitions(_tree(package)) if offered is None else offered
    return sorted((name for name in found if not name.startswith("_")), key=str.lower)


def _section(package: str) -> str:
    rows = [(f"`{name}`", first_sentence(_description(package, name))) for name in names_of(package)]
    return f"### {package}\n\n{table(('name', 'meaning'), rows)}"


def _description(package: str, name: str) -> str:
    """Returns the docstring of a name, from the module that defines it.

    Raises:
        ValueError: It has none.
    """
    tree = _tree(package)
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
    homes = {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}
    definitions = _definitions(_tree(homes[name]) if name in homes else tree)
    if not definitions.get(name):
        raise ValueError(f"{package}.{name} has no docstring where it is defined")
    return definitions[name]


def _definitions(tree: ast.Module) -> dict[str, str]:
    """Returns the public names that a module defines, with their docstrings or an empty text."""
    found = {}
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found[node.name] = ast.get_docstring(node) or ""
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            follows = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = str(after.value.value) if follows else ""
            found |= {
                each.id: text for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
            }
    return {name: text for name, text in found.items() if not name.startswith("_")}


def _tree(module: str) -> ast.Module:
    return ast.parse(Path(str(importlib.import_module(module).__file__)).read_text(encoding="utf-8"))
