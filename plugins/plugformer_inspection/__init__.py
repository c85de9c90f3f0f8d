"""`plugformer plot`: attention weights of a model, its positional encodings, and its learning curves.

Reading order: attention, attention_maps, positions, history, then the page with all figures: plot, command.
In Python::

    from plugformer_inspection import inspect_attention, observing
"""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer_inspection.attention import (
        AttentionLocation,
        AttentionRecord,
        AttentionView,
        Inspection,
        attentions,
        inspect_attention,
        observing,
    )

__all__ = [
    "AttentionLocation",
    "AttentionRecord",
    "AttentionView",
    "Inspection",
    "attentions",
    "inspect_attention",
    "observing",
]

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__)
