"""Models: stacks of layers, assembled from components.

Reading order: layer, encoder, decoder, assembly. What an architecture is made of is offered here.
"""

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
