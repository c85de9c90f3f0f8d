"""Plugformer: transformers for text whose every part is a plugin.

What the command line does, in Python::

    report = plugformer.train("dates", overrides=["model.attention=gqa"])
    predictions = plugformer.load(report.run).predict(["March 5, 1996"])

The names below are imported when they are first used, so that `import plugformer` needs no torch.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plugformer.installed import components, create
    from plugformer.runs.loading import load
    from plugformer.training.train import resume, train

__version__ = "0.1.0"

__all__ = ["__version__", "components", "create", "load", "resume", "train"]

_MODULES = {
    "components": "plugformer.installed",
    "create": "plugformer.installed",
    "load": "plugformer.runs.loading",
    "resume": "plugformer.training.train",
    "train": "plugformer.training.train",
}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name

    def __getattr__(name: str) -> object:
        """Imports a name of the interface."""
        if name not in _MODULES:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[__name__])
        import_module("plugformer.threads").limit_spinning()
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value


def __dir__() -> list[str]:
    """Returns what there is, used before or not."""
    return sorted({*globals(), *__all__})
