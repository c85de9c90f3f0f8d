"""`plugformer plot`: attention weights of a model, its positional encodings, and its learning curves.

Reading order: attention, attention_maps, positions, history, then the page with all figures: plot, command.
In Python::

    from plugformer_inspection import inspect_attention, observing
"""

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
