"""Training: from a resolved task to a run directory."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.distributed import Interruption
    from plugformer.training.preview import ASSUMED, median_example, preview_model
    from plugformer.training.strategy import Objective, TrainingStrategy, accelerator
    from plugformer.training.stream import BatchStream

__all__ = [
    "ASSUMED",
    "BatchStream",
    "Interruption",
    "Objective",
    "TrainingStrategy",
    "accelerator",
    "median_example",
    "preview_model",
]

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__)
