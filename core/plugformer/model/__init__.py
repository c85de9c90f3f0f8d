"""Models: stacks of layers, assembled from components.

Reading order: layer, encoder, decoder, assembly. What an architecture is made of is offered here.
"""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.generators import random_stream
    from plugformer.model.assembly import Builder, assemble
    from plugformer.model.cache import Cache
    from plugformer.model.compatibility import fitting, measures, reads, serves
    from plugformer.model.decoder import Decoder
    from plugformer.model.encoder import Encoder
    from plugformer.model.initialization import draw_own_values, initialize, refuse_hidden_values
    from plugformer.model.layer import Layer
    from plugformer.model.summary import summarize

__all__ = [
    "Builder",
    "Cache",
    "Decoder",
    "Encoder",
    "Layer",
    "assemble",
    "draw_own_values",
    "fitting",
    "initialize",
    "measures",
    "random_stream",
    "reads",
    "refuse_hidden_values",
    "serves",
    "summarize",
]

_MODULES = {
    "Builder": "assembly",
    "Cache": "cache",
    "Decoder": "decoder",
    "Encoder": "encoder",
    "Layer": "layer",
    "assemble": "assembly",
    "draw_own_values": "initialization",
    "fitting": "compatibility",
    "initialize": "initialization",
    "measures": "compatibility",
    "random_stream": "initialization",
    "reads": "compatibility",
    "refuse_hidden_values": "initialization",
    "serves": "compatibility",
    "summarize": "summary",
}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__, _MODULES)
