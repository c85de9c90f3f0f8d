"""Counts where a computation would wait for its device, on a machine that has none but the CPU.

Tensors count as the device's if they are parameters or buffers of a model, or come out of `Batch.to`, or are
computed from such ones. Calls are counted that need the value of one on the host, or a result whose size
depends on values: a GPU has to finish everything before it answers.
"""

from collections import Counter
from copy import copy
from dataclasses import fields, is_dataclass

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from plugformer.interfaces import Batch

WAITING = {
    "_local_scalar_dense",  # item(), float(), int(), bool()
    "bincount",
    "equal",
    "is_nonzero",
    "masked_select",
    "nonzero",
    "repeat_interleave",
    "unique_consecutive",
    "unique_dim",
    "_unique2",
}
TRANSFERS = ("tolist", "numpy", "cpu")
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}


class Synchronizations(TorchDispatchMode):
    """Inside, waits are counted; other threads are not looked at.

    Args:
        model: Its parameters and buffers are on the device.

    Attributes:
        calls: How often each operation waited.
    """

    def __init__(self, model):
        super().__init__()
        self.calls = Counter()
        self._model = model

    def __enter__(self):
        for tensor in (*self._model.parameters(), *self._model.buffers()):
            tensor.of_device = True
        self._patched = {name: getattr(torch.Tensor, name) for name in TRANSFERS}
        for name, usual in self._patched.items():
            setattr(torch.Tensor, name, self._counting(name, usual))
        self._to = Batch.to
        Batch.to = self._moved(Batch.to)
        return super().__enter__()

    def __exit__(self, *error):
        Batch.to = self._to
        for name, usual in self._patched.items():
            setattr(torch.Tensor, name, usual)
        return super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        result = func(*args, **(kwargs or {}))
        if any(map(_of_device, tensors)):
            name = func.overloadpacket.__name__
            masks = name in INDEXING and any(
                each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1]
            )
            self.calls[name] += int(name in WAITING or masks)
            _mark(result)
        return result

    def _counting(self, name, usual):
        def transfer(tensor, *args, **kwargs):
            self.calls[name] += int(_of_device(tensor))
            found = usual(tensor, *args, **kwargs)
            if isinstance(found, torch.Tensor) and _of_device(tensor):  # `cpu` returns the same tensor here
                found = found.clone()
                found.of_device = False
            return found

        return transfer

    def _moved(self, usual):
        def to(batch, *args, **kwargs):
            return _copied(usual(batch, *args, **kwargs))

        return to


def _of_device(tensor):
    return getattr(tensor, "of_device", False)


def _mark(value):
    if isinstance(value, torch.Tensor):
        value.of_device = True
    elif isinstance(value, list | tuple):
        for each in value:
            _mark(each)


def _copied(value):
    """Returns what a device would have got, other tensors than the host's."""
    if isinstance(value, torch.Tensor):
        kept = {name: _copied(each) for name, each in vars(value).items()}
        value = value.clone()
        vars(value).update(kept, of_device=True)
    elif is_dataclass(value):
        value = copy(value)
        for each in fields(value):
            object.__setattr__(value, each.name, _copied(getattr(value, each.name)))
    return value
