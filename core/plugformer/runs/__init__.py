"""Runs on disk: their files, checkpoints and locks. Nothing here trains; nothing read here is executed."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.runs.generators import generator_states
    from plugformer.runs.weights import own_tensors

__all__ = ["generator_states", "own_tensors"]

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"generator_states": "generators", "own_tensors": "weights"})
