"""One component that is no part of the model, created and used once, before any data is read."""

from collections.abc import Callable
from math import isfinite
from typing import Any

import torch
from torch import nn

from plugformer.configuration.task import Component
from plugformer.errors import PlugformerError, RegistryError
from plugformer.explanations import keys_of
from plugformer.faults import cause_of
from plugformer.interfaces import Initialization, Optimizer, ParameterContext, Schedule
from plugformer.kinds import Kind
from plugformer.problems import Finding, KeyPath
from plugformer.registry import Registry
from plugformer.registry.loading import guarded
from plugformer.registry.options import options_model


def try_component(registry: Registry, kind: Kind, block: Component, width: int) -> None:
    """Creates a component, and uses it if it needs nothing else.

    Args:
        registry: Has the component.
        kind: Its kind.
        block: Its name and options.
        width: Width of the model.

    Raises:
        PlugformerError: It fails.
    """
    component: Any = registry.create(kind, block.name, **block.options)
    uses: dict[Kind, Callable[[], None]] = {
        Kind.OPTIMIZER: lambda: _make_an_update(component, type(component)),
        Kind.INITIALIZATION: lambda: _draw_values(component),
        Kind.SCHEDULE: lambda: _require_factor(component, width),
    }
    if kind not in uses:
        return
    try:
        with torch.no_grad():
            guarded(registry.find(kind, block.name), "trying it", uses[kind])
    except RegistryError as error:
        if error.__cause__ is None or (explanation := cause_of(error.__cause__)) is None:
            raise
        raise RegistryError(explanation) from error


def _make_an_update(component: Optimizer, kind: type) -> None:
    if "lr" not in keys_of(options_model(kind)):
        raise RegistryError(
            f"{kind.__module__}:{kind.__qualname__} has no option `lr`, the learning rate that the schedule "
            "multiplies\nits author must add it to the constructor"
        )
    linear = nn.Linear(2, 2)
    for parameter in linear.parameters():
        parameter.grad = torch.ones_like(parameter)
    component.build(linear.named_parameters()).step()


def _draw_values(component: Initialization) -> None:
    linear = nn.Linear(2, 2)
    for name, parameter in linear.named_parameters():
        component.draw(parameter, ParameterContext(name=name, path=name, module=linear))


def _require_factor(component: Schedule, width: int) -> None:
    factor = component.factor(1, steps=100, width=width)
    if not (isinstance(factor, int | float) and isfinite(factor)):
        raise RegistryError(f"its factor of update 1 of 100 is {factor!r}, expected a finite number")


def problems_of(path: KeyPath, action: Callable[[], object]) -> list[Finding]:
    """Returns the error that an action raises, if it raises one, with its place in the task file."""
    try:
        action()
    except PlugformerError as error:
        return [(path, str(error))]
    return []
