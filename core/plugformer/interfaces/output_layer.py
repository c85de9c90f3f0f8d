"""The output layer while decoding: products with large matrices, and the largest of many scores."""

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from plugformer.errors import ConfigurationError

BLOCK = 64  # scores that are searched together for the largest
LARGE = 2**18  # fewest numbers of a matrix that is worth packing, measured by benchmarks/decoding.py
Precision = Literal["float32", "bfloat16", "int8"]


def largest(
    scores: Float[Tensor, "rows outputs"], k: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """Returns the `topk` of each row; the first of equal scores if k is 1.

    Among many outputs on a CPU only the blocks with the k largest maxima are searched, which is exact.
    """
    blocks = scores.shape[1] // BLOCK
    if scores.device.type != "cpu" or blocks < 2 * k:
        return scores.max(dim=1, keepdim=True) if k == 1 else scores.topk(k)
    whole = scores[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    _, chosen = largest(whole.amax(dim=2), k)
    found = whole.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)).flatten(1)
    best, places = largest(torch.cat([found, scores[:, blocks * BLOCK :]], dim=1), k)
    starts = functional.pad(chosen, (0, 1), value=blocks) * BLOCK
    return best, starts.gather(1, places // BLOCK) + places % BLOCK


class PackedMatrices(TorchFunctionMode):
    """Inside, products with large parameters on a CPU read copies of them for a fast kernel, made once.

    In `float32` only the order of sums differs. In `bfloat16` both factors are rounded to it. In `int8` their
    rows are rounded to multiples of the largest element, over 127 for parameters and over 63 for the other
    factor, because processors without VNNI would cut larger sums.

    Raises:
        ConfigurationError: This PyTorch has no such kernels.
    """

    def __init__(self, precision: Precision) -> None:
        super().__init__()
        if precision != "float32" and not torch.backends.mkldnn.is_available():
            raise ConfigurationError(f"decoding.precision: this PyTorch has no {precision}; leave it out")
        self._product = {"float32": _float32, "bfloat16": _bfloat16, "int8": _int8}[precision]
        self._products: dict[Tensor, Callable[[Tensor], Tensor]] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Calls the product in place of `functional.linear`, and any other function as it is."""
        if func is not functional.linear or kwargs or not _is_packable(*args[:2]):
            return func(*args, **(kwargs or {}))
        x, weight, bias = (*args, None)[:3]
        if weight not in self._products:
            self._products[weight] = self._product(weight.detach())
        found = self._products[weight](x)
        return found if bias is None else found.add_(bias)


def _is_packable(x: Tensor, weight: Tensor) -> bool:
    large = isinstance(weight, nn.Parameter) and weight.numel() >= LARGE and weight.device.type == "cpu"
    plain = x.dtype == weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return large and plain and torch.backends.mkldnn.is_available() and not torch.is_grad_enabled()


def _float32(weight: Tensor) -> Callable[[Tensor], Tensor]:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")


def _bfloat16(weight: Tensor) -> Callable[[Tensor], Tensor]:
    rounded = weight.bfloat16()
    return lambda x: functional.linear(x.bfloat16(), rounded).float()


def _int8(weight: Tensor) -> Callable[[Tensor], Tensor]:
    units, zeros = weight.abs().amax(dim=1).clamp(min=1e-30) / 127, torch.zeros(len(weight)).int()
    packed = torch.ops.onednn.qlinear_prepack((weight / units[:, None]).round().to(torch.int8), None)
    settings: Any = (64, packed, units, zeros, None, 1.0, 0, torch.float32, "none", [], "")

    def product(x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        unit = rows.abs().amax(dim=1, keepdim=True).clamp(min=1e-30) / 63
        integers = ((rows / unit).round() + 64).to(torch.uint8)
        found = torch.ops.onednn.qlinear_pointwise(integers, 1.0, *settings) * unit
        return cast("Tensor", found.unflatten(0, x.shape[:-1]))

    return product
