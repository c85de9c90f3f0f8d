"""Whether a task can be trained: its components, each by itself and together, and its data."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from plugformer.compatibility import incompatibilities
from plugformer.configuration import ResolvedTask, check_components
from plugformer.configuration.model_spec import task_model_spec
from plugformer.configuration.task import Component, Task
from plugformer.creation import create_architecture, create_task_type
from plugformer.errors import PlugformerError
from plugformer.generators import random_stream
from plugformer.hooks.manager import HookManager, create_hooks, output_pattern
from plugformer.hooks.specification import Run
from plugformer.interfaces import SPECIAL_TOKENS, Data, Sizes
from plugformer.kinds import Kind
from plugformer.model.build import build
from plugformer.model.dry_run import PartFailure, dry_run, sample_batch
from plugformer.problems import Finding, KeyPath
from plugformer.registry import Registry
from plugformer.registry.loading import guarded
from plugformer.runs.initialization import misfits
from plugformer.validation.trial import problems_of, try_component

_SIZES = Sizes(source=len(SPECIAL_TOKENS), outputs=len(SPECIAL_TOKENS))
"""Of a model that is built to see whether it can be."""


def validate(resolved: ResolvedTask) -> ResolvedTask:
    """Imports the task's components, checks their options, whether they work together and its data are there.

    Returns:
        The task with the defaults of all options filled in and its paths made absolute.

    Raises:
        ConfigurationError: Something does not fit; all problems together, each with its place.
    """
    checked = check_components(resolved)
    found = check(checked.task, checked.registry)
    found += [] if found else misfits(checked.task, checked.registry)
    known = {path for path, _ in found}
    if ("type",) in known:  # it says which columns the data are to serve
        return checked.raise_for(found)
    more = [each for each in data_problems(checked.task, checked.registry) if each[0] not in known]
    return checked.raise_for([*found, *more])


def validate_model(resolved: ResolvedTask) -> ResolvedTask:
    """Does what `validate` does, wherever the data may be: for looking at a task's model."""
    checked = check_components(resolved)
    return checked.raise_for(check(checked.task, checked.registry))


def check(task: Task, registry: Registry) -> list[Finding]:
    """Compares what components declare, creates each, and runs the model once on a few tokens.

    Returns:
        Every problem found: components that do not fit what the task is, that refuse their options or the
        model's sizes, that raise something, or return another shape than they should.
    """
    problems = [
        problem
        for path, create in ((("type",), create_task_type), (("model", "architecture"), create_architecture))
        for problem in problems_of(path, partial(create, task, registry))
    ]
    if problems:  # everything else depends on these two
        return problems
    problems += incompatibilities(task, registry)
    unfit = {path for path, _ in problems}
    with random_stream(0, "trial"):
        for path, build_component in _builds(task, registry):
            if path not in unfit:
                problems += problems_of(path, build_component)
        if ("model", "architecture") not in unfit:
            problems += [finding for finding in _model_problems(task, registry) if finding[0] not in unfit]
        return problems or list(_refused_by_hooks(task, registry))


def _model_problems(task: Task, registry: Registry) -> list[Finding]:
    """Returns what is wrong with the parts of a task's model."""
    spec, task_type = task_model_spec(task, registry), create_task_type(task, registry)
    entry = registry.find(Kind.ARCHITECTURE, task.model.architecture.name)
    batch, targets = sample_batch(spec.architecture, task_type)

    try:
        failures: list[PartFailure] = guarded(
            entry, "building the model", lambda: dry_run(spec, _SIZES, batch, targets=targets)
        )
    except PlugformerError as error:
        return [(("model", "architecture"), str(error))]
    return [
        (("model", "architecture") if failure.part is None else failure.part.origin, failure.message)
        for failure in failures
    ]


def data_problems(task: Task, registry: Registry) -> list[Finding]:
    """Returns problems that a task's data component finds before it reads examples, such as missing files."""
    block, columns = task.data, create_task_type(task, registry).columns

    def found() -> list[Finding]:
        data: Data = registry.create(Kind.DATA, block.name, **block.options)
        if unfit := problems_of(("data", "name"), lambda: data.check_columns(columns)):
            return unfit
        return [(("data", *path), message) for path, message in data.problems(columns)]

    try:
        return list(guarded(registry.find(Kind.DATA, block.name), "looking for problems", found))
    except PlugformerError as error:
        return [(("data",), str(error))]


def _builds(task: Task, registry: Registry) -> Iterator[tuple[KeyPath, Callable[[], object]]]:
    """Yields, by place, a constructor of each component that is not part of the model."""
    blocks: list[tuple[Kind, KeyPath, Component]] = [
        (Kind.DATA, ("data",), task.data),
        (Kind.TOKENIZER, ("tokenizer", "source"), task.tokenizer.source),
        (Kind.TOKENIZER, ("tokenizer", "target"), task.tokenizer.target),
        (Kind.OPTIMIZER, ("training", "optimizer"), task.training.optimizer),
        (Kind.SCHEDULE, ("training", "schedule"), task.training.schedule),
        (Kind.DECODING, ("decoding",), task.decoding),
        (Kind.INITIALIZATION, ("model", "initialization"), task.model.initialization),
    ]
    blocks += [
        (Kind.METRIC, ("evaluation", "metrics", index), block)
        for index, block in enumerate(task.evaluation.metrics)
    ]
    blocks += [
        (Kind.HOOK, ("training", "hooks", index), block) for index, block in enumerate(task.training.hooks)
    ]
    for kind, path, block in blocks:
        yield path, partial(try_component, registry, kind, block, task.model.width)
    if task.decoding.pattern:  # its parser needs no tokens
        yield ("decoding", "pattern"), partial(output_pattern, task.decoding.pattern, registry)


def _refused_by_hooks(task: Task, registry: Registry) -> Iterator[Finding]:
    """Shows the task's hooks its model, without memory for its parameters; yields what they find wrong."""
    if not task.training.hooks:
        return
    with torch.device("meta"):
        model = build(task_model_spec(task, registry), _SIZES)
    run = Run(Path(), task, model, steps=1, epoch_steps=1)

    def show(block: Component) -> None:
        HookManager([], lambda _: None, create_hooks([block], registry)).ask("model_built", run=run)

    for index, block in enumerate(task.training.hooks):
        yield from problems_of(("training", "hooks", index), partial(show, block))
