"""Models: stacks of layers, built from a specification."""

from plugformer.generators import random_stream
from plugformer.model.build import Builder, build, draw_own_values, refuse_hidden_values
from plugformer.model.decoder import Cache, Decoder
from plugformer.model.encoder import Encoder
from plugformer.model.layer import Layer
from plugformer.model.watching import replaced, watched

__all__ = [
    "Builder",
    "Cache",
    "Decoder",
    "Encoder",
    "Layer",
    "build",
    "draw_own_values",
    "random_stream",
    "refuse_hidden_values",
    "replaced",
    "watched",
]
