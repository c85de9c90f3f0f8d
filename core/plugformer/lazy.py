"""Packages whose names are imported when they are first used, so that importing the package costs nothing."""

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from plugformer.threads import limit_spinning


def lazily(package: str) -> Callable[[str], Any]:
    """Returns a package's `__getattr__`, which imports a name when it is first used.

    The names are those that the package's source imports for type checkers, each from the module named there.

    Example:
        `if TYPE_CHECKING: from mine.attention import Inspection`, and below, so that a type checker still
        sees a misspelt name, `if not TYPE_CHECKING: __getattr__ = lazily(__name__)`.

    Args:
        package: Its name.
    """

    @cache
    def imports() -> dict[str, str]:
        loader: Any = sys.modules[package].__loader__
        return {
            alias.name: "." * node.level + (node.module or "")
            for node in ast.walk(ast.parse(loader.get_source(package)))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def get(name: str) -> Any:
        if name not in imports():
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[package])
        limit_spinning()
        value = getattr(import_module(imports()[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
