"""One component of a task, built and run once, before any data is read.

A part of the model is built without memory for its parameters. One of moderate size is then built again and
run on a few tokens; of a larger one only the shapes are computed.
"""

from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from plugformer.configuration.task import Component
from plugformer.errors import PlugformerError, RegistryError
from plugformer.explanations import keys_of
from plugformer.faults import cause_of
from plugformer.interfaces import (
    Answer,
    FeedForward,
    Head,
    Initialization,
    Level,
    ModelContext,
    Norm,
    Optimizer,
    ParameterContext,
    ResidualContext,
    Schedule,
    TaskType,
)
from plugformer.kinds import Kind
from plugformer.model.dropout import Dropout
from plugformer.model.initialization import refuse_hidden_values
from plugformer.model.layer import WithDropout
from plugformer.model.watching import unlike
from plugformer.problems import Finding, KeyPath
from plugformer.registry import Registry
from plugformer.registry.loading import guarded, label
from plugformer.registry.options import options_model

_NUMBERED = {Answer.TEXT, Answer.TOKENS, Answer.LABEL, Answer.TAGS}
"""Answers whose targets are numbers of outputs."""

MODERATE = 2**22
"""Numbers in a part, 16 MB of them, up to which it is built with memory."""


class Trial:
    """One component, which is built and run.

    Args:
        registry: Creates it.
        kind: Its kind.
        block: Its name and options.
        model: What it is told about the model, if it is a part of one.
    """

    def __init__(self, registry: Registry, kind: Kind, block: Component, *model: ModelContext) -> None:
        self.entry = registry.find(kind, block.name)
        self.create = partial(registry.create, kind, block.name, *model, **block.options)
        self.kind = kind
        self.model = model

    def made(self, width: int) -> None:
        """Builds a component that is not part of the model; runs one that needs nothing else."""
        component = self.create()
        if self.kind is Kind.OPTIMIZER:
            self.attempt(lambda: _make_an_update(component, type(component)))
        elif self.kind is Kind.INITIALIZATION:
            self.attempt(lambda: _draw_values(component))
        elif self.kind is Kind.SCHEDULE:
            self.attempt(lambda: _require_factor(component, width))

    def run(self, task_type: TaskType | None = None) -> Any:
        """Builds a part of the model and, unless it needs others beside it, runs it on six tokens.

        Args:
            task_type: Says what a head is to predict.
        """
        component = self.built()
        names = {name for name, _ in component.named_parameters()}
        scores = self.attempt(lambda: _run(component, self.model[0], task_type), component)
        if made := {name for name, _ in component.named_parameters()} - names:
            raise RegistryError(
                f"{label(self.entry)} makes the parameters {', '.join(sorted(made))} while it computes, when "
                "the optimizer has been made without them: make them in the constructor"
            )
        return scores

    def shaped(self) -> Any:
        """Returns a part of the model without memory for its parameters."""
        with torch.device("meta"):
            component: nn.Module = self.create()
        guarded(self.entry, "listing its parameters", lambda: refuse_hidden_values(component))
        return component

    def built(self) -> Any:
        """Returns a part of the model, with memory for its parameters if they are not too many."""
        component = self.shaped()
        return self.create() if size_of(component) <= MODERATE else component

    def attempt(self, action: Callable[[], Any], *modules: nn.Module) -> Any:
        """Lets a component do something; where only shapes exist, its result may be None.

        Raises:
            PlugformerError: It fails; the message names the innermost part that did.
        """
        shapes_only = any(each.is_meta for module in modules for each in module.parameters())
        try:
            with torch.device("meta" if shapes_only else "cpu"), torch.no_grad():
                return guarded(self.entry, "trying it", action)
        except RegistryError as error:
            cause = error.__cause__
            if shapes_only and needs_values(cause):
                return None
            if cause is None or (explanation := cause_of(cause)) is None:
                raise
            raise RegistryError(explanation) from error


def size_of(module: nn.Module) -> int:
    """Returns the number of a module's numbers, learned and other."""
    return sum(each.numel() for each in (*module.parameters(), *module.buffers()))


def needs_values(error: BaseException | None) -> bool:
    """Returns whether an operation failed because tensors have no values, only shapes."""
    return isinstance(error, NotImplementedError) or "meta" in str(error).lower()


def _run(component: nn.Module, model: ModelContext, task_type: TaskType | None) -> Any:
    """Runs a part of the model; positions and attention are run together, later.

    Raises:
        RegistryError: It does not return what its contract says.
    """
    x, real = torch.ones(2, 3, model.width), torch.ones(2, 3, dtype=torch.bool)
    if isinstance(component, Head):
        scores = component.logits(x, real)
        if task_type is not None and task_type.answer_type in _NUMBERED:
            shape = (2,) if task_type.level is Level.SEQUENCE else (2, 3)
            component.loss(x, torch.zeros(shape, dtype=torch.int64), real)
        return scores
    if isinstance(model, ResidualContext):
        unchanged = WithDropout(nn.Identity(), Dropout(0.0))
        require_like(component(x, dict.fromkeys(model.sublayers, unchanged)), x, component)
    if isinstance(component, FeedForward):
        x = x.flatten(0, 1)
    if isinstance(component, FeedForward | Norm):
        require_like(component(x), x, component)
    return None


def require_like(output: object, given: Tensor, component: nn.Module, method: str = "") -> Any:
    """Returns an output that has the shape of an input.

    Raises:
        RegistryError: It has not.
    """
    if problem := unlike(output, given):
        where = f"{type(component).__module__}:{type(component).__qualname__}"
        raise RegistryError(f"{where}: {f'`{method}`: ' * bool(method)}{problem}")
    return output


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
