"""Imports that wait until a name is used."""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazily(modules: Mapping[str, Collection[str]]) -> Callable[[str], Any]:
    """Returns a package's `__getattr__`, which imports a name from its module when it is used."""

    def get(name: str) -> Any:
        module = next((module for module, names in modules.items() if name in names), None)
        if module is None:
            raise AttributeError(f"no attribute {name!r}", name=name)
        return getattr(import_module(module), name)

    return get
