"""Training: from a resolved task to a run directory."""

from plugformer.distributed import Interruption

__all__ = ["Interruption"]
