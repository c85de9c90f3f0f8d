"""Whether a task can be trained: its components, each by itself and together, and its data."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from plugformer.compatibility import incompatibilities
from plugformer.configuration import ResolvedTask, check_components
from plugformer.configuration.model_spec import model_spec
from plugformer.configuration.plan import Choice, StackPlan, context, plan_stacks
from plugformer.configuration.task import Component, Task
from plugformer.creation import create_architecture, create_task_type
from plugformer.errors import ConfigurationError, PlugformerError, RegistryError
from plugformer.generators import random_stream
from plugformer.hooks.manager import HookManager, create_hooks, output_pattern
from plugformer.hooks.specification import Run
from plugformer.interfaces import SPECIAL_TOKENS, Data, HeadContext, ModelContext, Place, Sizes
from plugformer.kinds import Kind
from plugformer.model.build import Builder, build
from plugformer.problems import Finding, KeyPath
from plugformer.registry import Registry
from plugformer.registry.loading import guarded
from plugformer.runs.initialization import misfits
from plugformer.validation.pairs import choices_of, mismatches, ownerless, without_a_path
from plugformer.validation.trial import Trial, needs_values, problems_of

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
    """Builds and runs each component that a task names, then each attention with the encoding beside it.

    Returns:
        Every problem found: components that do not fit what the task is, that refuse their options or the
        model's sizes, that raise something, or return another shape than they should; if there are none,
        encodings and attentions that do not fit each other.
    """
    problems = [
        problem
        for path, create in ((("type",), create_task_type), (("model", "architecture"), create_architecture))
        for problem in problems_of(path, partial(create, task, registry))
    ]
    if problems:  # of all else one depends on these two
        return problems
    problems += incompatibilities(task, registry)
    unfit = {path for path, _ in problems}
    plans = list(plan_stacks(task.model, create_architecture(task, registry).stacks).values())
    builds = [*_builds(task, registry), *_neural_builds(task, plans, registry)]
    if task.decoding.pattern:  # its parser needs no tokens
        builds.append((("decoding", "pattern"), partial(output_pattern, task.decoding.pattern, registry)))
    with random_stream(0, "trial"):
        for path, build in builds:
            if path not in unfit:
                problems += problems_of(path, build)
        for compared in (ownerless, mismatches, without_a_path):
            problems = problems or [each for plan in plans for each in compared(task.model, plan, registry)]
        problems = problems or list(_refused_by_architecture(task, registry))
        return problems or list(_refused_by_hooks(task, registry))


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
        yield path, partial(Trial(registry, kind, block).made, task.model.width)


def _neural_builds(
    task: Task, plans: list[StackPlan], registry: Registry
) -> Iterator[tuple[KeyPath, Callable[[], object]]]:
    """Yields, by place, a trial of each component of the model."""
    chosen: dict[KeyPath, list[tuple[Choice, ModelContext]]] = {}
    for plan in plans:
        for choice, told in choices_of(task.model, plan):
            chosen.setdefault(choice.path, []).append((choice, told))
    for path, choices in chosen.items():
        yield path, partial(_try_places, registry, choices)
    model = HeadContext(**vars(context(task.model, plans[-1].top)), outputs=2)
    head = Trial(registry, Kind.HEAD, task.model.head, model)
    yield ("model", "head"), partial(head.run, create_task_type(task, registry))


def _try_places(registry: Registry, choices: list[tuple[Choice, ModelContext]]) -> None:
    """Builds a component for each place that it is chosen for, and runs it once for each role in a stack.

    Raises:
        PlugformerError: It cannot serve a place, which the message names if it can serve others.
    """
    refused: dict[Place, PlugformerError] = {}
    roles: set[tuple[str, bool]] = set()
    for choice, told in choices:
        place = told.place
        trial = Trial(registry, choice.kind, choice.block, told)
        try:
            if (place.stack, place.cross) in roles:
                trial.shaped()
            else:
                trial.run()
        except PlugformerError as error:
            refused[place] = error
        else:
            roles.add((place.stack, place.cross))
    for place, refusal in refused.items():
        if len(refused) == len(choices):
            raise refusal
        sentence, newline, hint = str(refusal).partition("\n")
        raise ConfigurationError(f"{sentence} ({place})" + newline + hint) from refusal


def _refused_by_architecture(task: Task, registry: Registry) -> Iterator[Finding]:
    """Lets the architecture build its model, without memory for parameters; yields what it refuses."""
    entry = registry.find(Kind.ARCHITECTURE, task.model.architecture.name)
    spec = model_spec(task, registry)

    def build_stacks() -> None:
        with torch.device("meta"):
            spec.architecture.build(Builder(spec), _SIZES, spec.level)

    def attempt() -> None:
        try:
            guarded(entry, "building the model", build_stacks)
        except RegistryError as error:
            if not needs_values(error.__cause__):
                raise

    yield from problems_of(("model", "architecture"), attempt)


def _refused_by_hooks(task: Task, registry: Registry) -> Iterator[Finding]:
    """Shows the task's hooks its model, without memory for its parameters; yields what they find wrong."""
    if not task.training.hooks:
        return
    with torch.device("meta"):
        model = build(model_spec(task, registry), _SIZES)
    run = Run(Path(), task, model, steps=1, epoch_steps=1)

    def show(block: Component) -> None:
        HookManager([], lambda _: None, create_hooks([block], registry)).ask("model_built", run=run)

    for index, block in enumerate(task.training.hooks):
        yield from problems_of(("training", "hooks", index), partial(show, block))
