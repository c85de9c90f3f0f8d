"""Training: from a resolved task to a run directory."""

from plugformer.training.interruption import Interruption
from plugformer.training.strategy import Objective, TrainingStrategy
from plugformer.training.stream import BatchStream, CountedBatch

__all__ = [
    "BatchStream",
    "CountedBatch",
    "Interruption",
    "Objective",
    "TrainingStrategy",
]
