"""Packages whose names are imported when they are first used, so that importing the package costs nothing."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from plugformer.threads import limit_spinning


def lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a package's `__getattr__`, which imports a name when it is first used.

    Example:
        `if not TYPE_CHECKING: __getattr__ = lazily(__name__, {"Inspection": "attention"})`, beside imports
        for type checkers.

    Args:
        package: Its name.
        modules: For each name that it offers, the module that defines it, named from the package on.
    """

    def get(name: str) -> Any:
        if name not in modules:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[package])
        limit_spinning()
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
