"""Models: stacks of layers and their key-value caches, built from a specification."""

from plugformer.interfaces.spec import LayerSpec, Limits, ModelSpec, PartSpec, Sizes, StackSpec
from plugformer.model.build import Builder
from plugformer.model.decoder import Cache, Decoder
from plugformer.model.dry_run import example_batch
from plugformer.model.encoder import Encoder
from plugformer.model.layer import Layer
from plugformer.model.parametrization import build, learning_rates

__all__ = [
    "Builder",
    "Cache",
    "Decoder",
    "Encoder",
    "Layer",
    "LayerSpec",
    "Limits",
    "ModelSpec",
    "PartSpec",
    "Sizes",
    "StackSpec",
    "build",
    "example_batch",
    "learning_rates",
]
