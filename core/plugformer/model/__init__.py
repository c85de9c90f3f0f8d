"""Models: stacks of layers, assembled from components.

Reading order: layer, encoder, decoder, assembly. What an architecture is made of is offered here.
"""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.model.assembly import Builder, assemble
    from plugformer.model.cache import Cache
    from plugformer.model.decoder import Decoder
    from plugformer.model.encoder import Encoder
    from plugformer.model.summary import summarize

__all__ = ["Builder", "Cache", "Decoder", "Encoder", "assemble", "summarize"]

_MODULES = {
    "Builder": "assembly",
    "Cache": "cache",
    "Decoder": "decoder",
    "Encoder": "encoder",
    "assemble": "assembly",
    "summarize": "summary",
}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__, _MODULES)
