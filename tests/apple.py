"""An Apple GPU without one: tensors on a device of their own, called `meta`, computed on the CPU.

As there, no tensor on the device is float64, and none is computed together with one in main memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

MPS = torch.device("meta")
_ACROSS = ("aten::copy_", "aten::_to_copy")


class OnMps(Tensor):
    """A tensor on the device; its numbers are in `inner`."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "OnMps":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=MPS,
        )
        made.inner = inner
        return made

    def tolist(self) -> Any:
        """Copies the numbers to main memory; PyTorch has no such method for subclasses."""
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


@contextmanager
def apple_gpu() -> Iterator[None]:
    """Inside, tensors can be moved to `mps`, and made there."""
    # Tensors made in inference mode cannot be wrapped.
    with patch("torch.inference_mode", lambda *_: torch.no_grad()), _Moved(), _Dispatched():
        yield


class _Moved(TorchFunctionMode):
    """Moves tensors without asking for a driver."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is Tensor.to and any(str(each) == MPS.type for each in args[1:]):
            dtype = next((each for each in args[1:] if isinstance(each, torch.dtype)), None)
            return torch.ops.aten._to_copy.default(args[0], device=MPS, dtype=dtype)
        kwargs = kwargs or {}
        if function is torch.tensor and str(kwargs.get("device")) == MPS.type:
            made = torch.tensor(*args, **{**kwargs, "device": "cpu"})
            return torch.ops.aten._to_copy.default(made, device=MPS)
        return function(*args, **kwargs)


class _Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


def _run(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
    there = [each for each in tensors if isinstance(each, OnMps)]
    name = function._schema.name
    if there and name not in _ACROSS and any(each.dim() and not isinstance(each, OnMps) for each in tensors):
        raise RuntimeError(f"{name}: tensors on mps and on the CPU")
    wanted = kwargs.get("device")
    on = bool(there) if wanted is None else torch.device(wanted).type == MPS.type
    if name == "aten::copy_":
        on = isinstance(args[0], OnMps)
    if wanted is not None:
        kwargs = {**kwargs, "device": "cpu"}
    inside = tree_map(lambda each: each.inner if isinstance(each, OnMps) else each, (args, kwargs))
    found = function(*inside[0], **inside[1])
    before = {id(each.inner): each for each in there}
    return tree_map(lambda each: _placed(each, before) if on and isinstance(each, Tensor) else each, found)


def _placed(found: Tensor, before: dict[int, OnMps]) -> OnMps:
    """Returns a result on the device; the same tensor if it was changed in place."""
    if found.dtype is torch.float64:
        raise TypeError(
            "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support it"
        )
    return before[id(found)] if id(found) in before else OnMps(found)
