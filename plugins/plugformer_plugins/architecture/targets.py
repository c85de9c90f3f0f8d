"""Targets of whole examples."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from numpy.typing import NDArray
from torch import Tensor

from plugformer.interfaces import NO_TARGETS, Ragged


def example_targets(targets: Ragged | NDArray[Any] | None) -> Shaped[Tensor, "..."]:
    """Returns numbers of classes as integers, other numbers as they are in single precision; none of None."""
    assert not isinstance(targets, Ragged)  # noqa: S101 (those are targets of tokens)
    if targets is None:
        return NO_TARGETS
    kind = np.float32 if np.issubdtype(targets.dtype, np.floating) else np.int64
    return torch.from_numpy(targets.astype(kind))
