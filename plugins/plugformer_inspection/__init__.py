"""`plugformer plot`: what the attentions of a model weigh, what its positions do, and how it learned.

Reading order: observation, attention, positions, history, then what draws them: figures, page, plot,
command.
In Python::

    from plugformer_inspection import inspect_attention, observing
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plugformer_inspection.attention import AttentionView, Inspection, inspect_attention
    from plugformer_inspection.observation import Place, Record, attentions, observing

__all__ = [
    "AttentionView",
    "Inspection",
    "Place",
    "Record",
    "attentions",
    "inspect_attention",
    "observing",
]

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name

    def __getattr__(name: str) -> Any:
        """Imports a name when it is first used: `plot --help` needs no torch."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = "observation" if name in ("Place", "Record", "attentions", "observing") else "attention"
        return getattr(import_module(f"{__name__}.{home}"), name)
