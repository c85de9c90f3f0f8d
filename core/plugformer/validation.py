"""Whether a task can be trained: its components, alone and together, and its data; no example is read."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import nn

from plugformer.compatibility import incompatibilities
from plugformer.configuration import ResolvedTask
from plugformer.configuration.task import Component
from plugformer.errors import PlugformerError, RegistryError
from plugformer.experiment import Experiment
from plugformer.faults import cause_of
from plugformer.generators import random_stream
from plugformer.hooks.manager import HookManager, create_hooks, output_pattern
from plugformer.hooks.specification import Run
from plugformer.interfaces import (
    SPECIAL_TOKENS,
    Initialization,
    Optimizer,
    OutputType,
    ParameterContext,
    Schedule,
    Sizes,
)
from plugformer.model.build import build
from plugformer.model.dry_run import PartFailure, dry_run, example_batch
from plugformer.registry import Kind
from plugformer.registry.discovery import guarded
from plugformer.registry.options import keys_of, options_model
from plugformer.runs.lock import misfits
from plugformer.yaml_tree import Finding, KeyPath

__all__ = ["validate", "validate_model"]

_NUMBERED = frozenset({OutputType.TEXT, OutputType.TOKENS, OutputType.LABEL, OutputType.TAGS})
"""Answers whose targets are numbers of outputs."""

_SIZES = Sizes(source=len(SPECIAL_TOKENS), outputs=len(SPECIAL_TOKENS))
"""The sizes of a model that is built to see whether it can be built."""


def validate(resolved: ResolvedTask, rows: Mapping[str, Any] | None = None) -> Experiment:
    """Imports a task's components and checks their options, their combination, and that the data are there.

    `rows` are examples in memory, by split.

    Raises:
        ConfigurationError: Something does not fit; all problems together, each with its place.
    """
    experiment = Experiment.from_resolved(resolved, rows=rows)
    findings = check(experiment) or misfits(experiment.task)
    known = {path for path, _ in findings}
    others = (finding for finding in data_problems(experiment) if finding[0] not in known)
    return experiment.raise_for([*findings, *others])


def validate_model(resolved: ResolvedTask) -> Experiment:
    """Does what `validate` does, without looking at the data.

    Raises:
        ConfigurationError: As for `validate`.
    """
    experiment = Experiment.from_resolved(resolved)
    return experiment.raise_for(check(experiment))


def check(experiment: Experiment) -> list[Finding]:
    """Compares what components declare, uses each once, and runs the model once on a few tokens.

    Returns:
        Every problem: components that do not fit the task, that refuse their options or the sizes of the
        model, that raise an error, or return another shape than they should.
    """
    findings = list(incompatibilities(experiment))
    unfit = {path for path, _ in findings}
    with random_stream(0, "trial"):
        for path, use in _uses(experiment):
            if path not in unfit:
                findings += _findings(path, use)
        if ("model", "architecture") not in unfit:
            findings += [finding for finding in _model_problems(experiment) if finding[0] not in unfit]
        return findings or list(_refused_by_hooks(experiment))


def data_problems(experiment: Experiment) -> list[Finding]:
    """Returns what the data component finds before it reads examples, such as missing files."""
    columns, data = experiment.task_type.columns, experiment.data
    entry = experiment.registry.find(Kind.DATA, experiment.task.data.name)
    if unfit := _findings(("data", "name"), lambda: data.check_columns(columns)):
        return unfit
    findings: list[Finding] = []

    def look() -> None:
        findings.extend((("data", *path), message) for path, message in data.problems(columns))

    return _findings(("data",), lambda: guarded(entry, "looking for problems", look)) or findings


def _uses(experiment: Experiment) -> Iterator[tuple[KeyPath, Callable[[], object]]]:
    """Yields, by place, a first use of each component that is not part of the model."""
    task, registry = experiment.task, experiment.registry
    width = task.model.width

    def used(kind: Kind, block: Component, use: Callable[[Any], object]) -> Callable[[], object]:
        def action() -> None:
            component = experiment.create(kind, block)
            try:
                with torch.no_grad():
                    guarded(registry.find(kind, block.name), "trying it", lambda: use(component))
            except RegistryError as error:
                if error.__cause__ is None or (explanation := cause_of(error.__cause__)) is None:
                    raise
                raise RegistryError(explanation) from error

        return action

    yield ("data",), lambda: experiment.data
    for side in ("source", "target"):
        block = getattr(task.tokenizer, side)
        yield ("tokenizer", side), partial(registry.create, Kind.TOKENIZER, block.name, **block.options)
    yield ("training", "optimizer"), used(Kind.OPTIMIZER, task.training.optimizer, _make_an_update)
    yield (
        ("training", "schedule"),
        used(Kind.SCHEDULE, task.training.schedule, lambda schedule: _require_factor(schedule, width)),
    )
    yield ("decoding",), lambda: experiment.create(Kind.DECODING, task.decoding)
    yield ("model", "initialization"), used(Kind.INITIALIZATION, task.model.initialization, _draw_values)
    for index, block in enumerate(task.evaluation.metrics):
        yield ("evaluation", "metrics", index), partial(experiment.create, Kind.METRIC, block)
    for index, block in enumerate(task.training.hooks):
        yield ("training", "hooks", index), partial(create_hooks, [block], registry)
    if task.decoding.pattern:  # its parser needs no tokens
        yield ("decoding", "pattern"), lambda: output_pattern(task.decoding.pattern or "", registry)


def _make_an_update(component: Optimizer) -> None:
    kind = type(component)
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


def _model_problems(experiment: Experiment) -> list[Finding]:
    """Returns what is wrong with the parts of the model."""
    entry = experiment.registry.find(Kind.ARCHITECTURE, experiment.task.model.architecture.name)
    task_type = experiment.task_type
    reads = any(column.role == "input" for column in task_type.columns)
    batch = example_batch(experiment.architecture, task_type.level, reads=reads)
    targets = task_type.output_type in _NUMBERED
    try:
        failures: list[PartFailure] = guarded(
            entry, "building the model", lambda: dry_run(experiment.spec, _SIZES, batch, targets=targets)
        )
    except PlugformerError as error:
        return [(("model", "architecture"), str(error))]
    return [
        (("model", "architecture") if failure.part is None else failure.part.origin, failure.message)
        for failure in failures
    ]


def _refused_by_hooks(experiment: Experiment) -> Iterator[Finding]:
    """Shows the task's hooks its model, without memory for its parameters; yields what they find wrong."""
    task = experiment.task
    if not task.training.hooks:
        return
    with torch.device("meta"):
        model = build(experiment.spec, _SIZES)
    run = Run(Path(), task, model, steps=1, epoch_steps=1)
    for index, block in enumerate(task.training.hooks):

        def show(block: Component = block) -> None:
            hooks = create_hooks([block], experiment.registry)
            HookManager([], lambda _: None, hooks).ask("model_built", run=run)

        yield from _findings(("training", "hooks", index), show)


def _findings(path: KeyPath, action: Callable[[], object]) -> list[Finding]:
    """Returns the error that an action raises, if it raises one, with its place in the task."""
    try:
        action()
    except PlugformerError as error:
        return [(path, str(error))]
    return []
