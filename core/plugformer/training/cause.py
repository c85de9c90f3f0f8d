"""Where the computation of a loss and its gradients first yields what is not finite."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from plugformer.errors import NotFiniteError
from plugformer.interfaces.batch import Batch
from plugformer.interfaces.model import Model
from plugformer.model.watching import watched

_SHOWN = 5


def find_cause(model: Model, batches: Sequence[Batch]) -> tuple[str, Batch | None]:
    """Computes losses and gradients again, and looks where they first stop being finite.

    Random generators must be as they were the first time. Neither the parameters nor their gradients change.

    Args:
        model: In training mode.
        batches: Of the update.

    Returns:
        A sentence about the first module with an output that is not finite or, if there is none, about the
        parameters with such gradients; and the batch that shows it, None if all is finite now.
    """
    named = {name: each for name, each in model.named_parameters() if each.requires_grad}
    with torch.compiler.set_stance("force_eager"), _watching(model) as found:
        for batch in batches:
            loss = model(batch.to(next(model.parameters()).device))
            if found:
                return f"the first output that is not finite is that of {found[0]}", batch
            total = loss.total + loss.auxiliary
            gradients = torch.autograd.grad(total, list(named.values()), allow_unused=True)
            if names := [name for name, each in zip(named, gradients, strict=True) if not is_finite(each)]:
                return f"all outputs are finite; not finite are the gradients of {several(names)}", batch
    return "computed again, all outputs and gradients are finite: a component is not deterministic", None


def first_not_finite(model: nn.Module, compute: Callable[[], object]) -> str:
    """Computes something again that ended because numbers were not finite.

    Returns:
        A sentence about the first module with an output that is not finite.
    """
    with torch.compiler.set_stance("force_eager"), _watching(model) as found, suppress(NotFiniteError):
        compute()
    if not found:
        return "computed again, all outputs are finite: a component is not deterministic"
    return f"the first output that is not finite is that of {found[0]}"


def is_finite(tensor: Tensor | None) -> bool:
    """Returns whether a tensor, if there is one, holds finite numbers alone."""
    return tensor is None or bool(tensor.isfinite().all())


def several(names: Sequence[str]) -> str:
    """Returns the first few names as text, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


@contextmanager
def _watching(model: nn.Module) -> Iterator[list[str]]:
    """Inside, outputs that are not finite are noted in the order of computation, inner modules first."""
    found: list[str] = []

    def look(name: str, module: nn.Module, _: tuple[Any, ...], output: object) -> None:
        for tensor in _tensors(output):
            if not is_finite(tensor):
                count = f"{int((~tensor.isfinite()).sum()):,} of {tensor.numel():,} numbers"
                found.append(f"{name or 'the model'} ({type(module).__name__}): {count}")
                return

    with watched(model, look):
        yield found


def _tensors(value: object) -> Iterator[Tensor]:
    """Yields the tensors in what a module returns."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from (tensor for each in value.values() for tensor in _tensors(each))
    elif isinstance(value, list | tuple):
        yield from (tensor for each in value for tensor in _tensors(each))
    elif is_dataclass(value):
        yield from (tensor for field in fields(value) for tensor in _tensors(getattr(value, field.name)))
