"""Training: from a resolved task to a run directory."""

from plugformer.training.interruption import Interruption

__all__ = ["Interruption"]
