"""Training: from a resolved task to a run directory."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.distributed import Interruption
    from plugformer.training.strategy import Objective, TrainingStrategy, accelerator
    from plugformer.training.stream import BatchStream

__all__ = [
    "BatchStream",
    "Interruption",
    "Objective",
    "TrainingStrategy",
    "accelerator",
]

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__)
