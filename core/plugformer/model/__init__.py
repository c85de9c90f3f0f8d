"""Models: stacks of layers, assembled from components.

Reading order: layer, encoder, decoder, assembly. What an architecture is made of is offered here.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plugformer.model.assembly import Builder
    from plugformer.model.cache import Cache
    from plugformer.model.decoder import Decoder
    from plugformer.model.encoder import Encoder

__all__ = ["Builder", "Cache", "Decoder", "Encoder"]

_MODULES = {"Builder": "assembly", "Cache": "cache", "Decoder": "decoder", "Encoder": "encoder"}


def __getattr__(name: str) -> Any:
    """Imports what is asked for, and no more: modules of this package import one another."""
    if name not in _MODULES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
