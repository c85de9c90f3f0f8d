"""Dropout whose random numbers cost little on a CPU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import dropout

LEVELS = 2**16


class Dropout(nn.Module):
    """Zeroes elements at random while training, and scales the others so that the mean stays.

    Srivastava et al. 2014, section 4: https://jmlr.org/papers/v15/srivastava14a.html. On a CPU, drawing a
    number for each element takes longer than much of a small model's arithmetic; here one 64-bit number
    decides four elements. The rate is rounded to 1/65,536, and the scale follows the rounded rate. Other
    devices have a fused kernel of their own, and compilers make one.

    Args:
        rate: Share of elements that become zero, in [0, 1).
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns `x` as it is in evaluation mode, else with elements dropped."""
        if not self.training or self.rate == 0:
            return x
        if _has_fused_kernel(x):
            return dropout(x, self.rate)
        kept, scale = self._kept(x)
        return torch.mul(x, kept.mul_(scale))

    def added(self, x: Float[Tensor, "*shape"], y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns `x + self(y)`, in one pass where that is possible."""
        if not self.training or self.rate == 0 or _has_fused_kernel(x):
            return torch.add(x, self(y) if self.training else y)
        kept, scale = self._kept(y)
        return torch.addcmul(x, y, kept, value=scale)

    def _kept(self, x: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], float]:
        """Returns one where an element is kept and zero elsewhere, and what to multiply the kept ones by."""
        dropped = min(round(self.rate * LEVELS), LEVELS - 1)
        numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        levels = numbers.view(torch.int16)[: x.numel()].view(x.shape)
        # In place, because a comparison with a boolean result is not vectorized.
        return levels.ge_(dropped - LEVELS // 2).to(x.dtype), LEVELS / (LEVELS - dropped)

    def extra_repr(self) -> str:
        """Shows the rate when the model is printed."""
        return f"rate={self.rate}"


def _has_fused_kernel(x: Tensor) -> bool:
    return x.device.type != "cpu" or torch.compiler.is_compiling()
