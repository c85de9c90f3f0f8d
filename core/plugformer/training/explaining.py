"""Finds the module at fault when a training stops because numbers are not finite."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from plugformer.interfaces import Batch, Model
from plugformer.training.strategy import Objective

_LISTED = 8


def explained(model: Model, batches: Sequence[Batch], objective: Objective | None = None) -> str:
    """Computes batches again, with new random numbers, up to the first number that is not finite.

    Args:
        model: With all parameters as they are now, after later updates if the device was not waited for.
        batches: Those of an update whose loss or gradients are not finite, of all processes.
        objective: Computes their loss; None for the model's own.

    Returns:
        A sentence about the module or the parameters.
    """
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    if broken := [name for name, value in trained.items() if not value.isfinite().all()]:
        return f"Non-finite parameters: {_listed(broken)}."
    for batch in batches:
        if found := _first_nonfinite(model, batch, objective, trained):
            return f"{found} Rows of the split train (from 0): {_listed(batch.rows)}."
    return "Computed again, all outputs and gradients are finite: some part is random."


def _first_nonfinite(
    model: Model, batch: Batch, objective: Objective | None, trained: Mapping[str, Tensor]
) -> str:
    """Returns a sentence about the first output, or the gradients; an empty text if all are finite."""
    outputs: list[str] = []

    def look(path: str, module: nn.Module, _: tuple[Any, ...], output: object) -> None:
        for tensor in [] if outputs else _tensors(output):
            if (count := int((~tensor.isfinite()).sum())) and not outputs:
                name = f"{path or 'the model'} ({type(module).__name__})"
                outputs.append(f"First non-finite output: {name}, {count:,} of {tensor.numel():,} numbers.")

    with torch.compiler.set_stance("force_eager"), ExitStack() as hooks:
        for path, module in model.named_modules():
            hooks.enter_context(module.register_forward_hook(partial(look, path)))
        batch = batch.to(next(model.parameters()).device)
        loss = model(batch) if objective is None else model(batch, objective=objective)
    if outputs:
        return outputs[0]
    total = loss.total + loss.auxiliary
    gradients = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    names = [
        name
        for name, gradient in zip(trained, gradients, strict=True)
        if gradient is not None and not gradient.isfinite().all()
    ]
    return f"All outputs are finite. Non-finite gradients: {_listed(names)}." if names else ""


def _tensors(value: object) -> Iterator[Tensor]:
    """Yields the tensors in a module's output."""
    if isinstance(value, Tensor):
        yield value
    elif is_dataclass(value):
        yield from _tensors([getattr(value, field.name) for field in fields(value)])
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors(item)


def _listed(items: Sequence[object]) -> str:
    more = f" and {len(items) - _LISTED} more" if len(items) > _LISTED else ""
    return ", ".join(map(str, items[:_LISTED])) + more
