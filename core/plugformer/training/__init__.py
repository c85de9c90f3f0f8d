"""Training: from a resolved task to a run directory."""

from plugformer.distributed import Interruption
from plugformer.training.preview import ASSUMED, median_example, preview_model
from plugformer.training.strategy import Objective, TrainingStrategy, accelerator

__all__ = [
    "ASSUMED",
    "Interruption",
    "Objective",
    "TrainingStrategy",
    "accelerator",
    "median_example",
    "preview_model",
]
