"""Checks whether the type, architecture, head, metrics and settings of a task declare the same things."""

from collections.abc import Callable, Iterator
from typing import Any

from plugformer.configuration.task import DecodingBlock, Task
from plugformer.errors import RegistryError
from plugformer.experiment import Experiment
from plugformer.interfaces import Architecture, Head, Level, Metric, OutputType, TaskType, Tokenizer
from plugformer.registry import EntryState, Kind, Registry
from plugformer.registry.discovery import BUILT_IN
from plugformer.yaml_tree import Finding

__all__ = ["fitting", "measures", "reads", "serves"]


def incompatibilities(experiment: Experiment) -> Iterator[Finding]:
    """Yields every component or setting that does not fit the others, and what would fit."""
    task, registry = experiment.task, experiment.registry
    task_type, architecture = experiment.task_type, experiment.architecture
    yield from _levels(task, task_type, architecture, registry)
    yield from unfit_metrics(experiment)
    yield from _stacks(task, architecture)
    yield from _embeddings(task, task_type, architecture)
    yield from _sampling(task, task_type, registry)
    yield from _room(task, task_type, architecture)
    yield from unfit_decoding(experiment)


def unfit_decoding(experiment: Experiment) -> Iterator[Finding]:
    """Yields settings of the decoding of a task that decodes nothing."""
    task = experiment.task
    if experiment.task_type.level is Level.NEXT_TOKEN:
        return
    for name in ("name", "length", "pattern"):
        if getattr(task.decoding, name) != DecodingBlock.model_fields[name].default:
            yield ("decoding", name), f"a {task.type.name} task decodes nothing; take it out"


def _levels(
    task: Task, task_type: TaskType, architecture: Architecture, registry: Registry
) -> Iterator[Finding]:
    level = task_type.level
    if level not in architecture.levels or not reads(task_type, architecture):
        yield (
            ("model", "architecture"),
            f"{task.model.architecture.name!r} does not fit a {task.type.name} task; expected "
            + _names(
                registry,
                Kind.ARCHITECTURE,
                lambda other: level in other.levels and reads(task_type, other),
            ),
        )
    head: Any = registry.load(Kind.HEAD, task.model.head.name)
    if not serves(head, task_type):
        offered, wanted = f"from {_shown(head.levels)}", f"from {level}"
        if level in head.levels:
            offered, wanted = _shown(head.output_types), str(task_type.output_type)
        yield (
            ("model", "head"),
            f"head {task.model.head.name!r} predicts {offered}, a {task.type.name} task {wanted}; expected "
            + _names(registry, Kind.HEAD, lambda other: serves(other, task_type)),
        )


def serves(head: type[Head], task_type: TaskType) -> bool:
    """Returns whether a head has the level and the output type of a task."""
    return task_type.level in head.levels and task_type.output_type in head.output_types


def reads(task_type: TaskType, architecture: Architecture | type[Architecture]) -> bool:
    """Returns whether a task has an input for every stack that needs one."""
    inputs = any(column.role == "input" for column in task_type.columns)
    return inputs or all(stack.causal for stack in architecture.stacks)


def unfit_metrics(experiment: Experiment) -> Iterator[Finding]:
    """Yields metrics that cannot measure a task's answers, and those that can."""
    task, registry, task_type = experiment.task, experiment.registry, experiment.task_type
    for index, block in enumerate(task.evaluation.metrics):
        metric: Any = registry.load(Kind.METRIC, block.name)
        if not measures(metric, task_type):
            accepted, wanted = _shown(metric.accepts), f"answers with {task_type.output_type}"
            if task_type.output_type in metric.accepts:
                accepted, wanted = "whole texts", "predicts some of their tokens"
            yield (
                ("evaluation", "metrics", index),
                f"metric {block.name!r} measures {accepted}, but a {task.type.name} task {wanted}; expected "
                + _names(registry, Kind.METRIC, lambda other: measures(other, task_type)),
            )


def measures(metric: type[Metric], task_type: TaskType) -> bool:
    """Returns whether a metric can measure a task's answers; one per character needs complete texts."""
    whole = task_type.level is Level.NEXT_TOKEN or getattr(metric, "unit", "targets") == "targets"
    return task_type.output_type in metric.accepts and whole


def _stacks(task: Task, architecture: Architecture) -> Iterator[Finding]:
    stacks = {stack.name for stack in architecture.stacks}
    for name in ("encoder", "decoder"):
        settings = getattr(task.model, name)
        if name not in stacks and settings != type(settings)():
            yield (
                ("model", name),
                f"architecture {task.model.architecture.name!r} has no {name}; take these settings out",
            )


def _embeddings(task: Task, task_type: TaskType, architecture: Architecture) -> Iterator[Finding]:
    embeddings, kind = task.model.embeddings, task.model.architecture.name
    if embeddings.shared and len(architecture.stacks) < 2:
        yield (
            ("model", "embeddings", "shared"),
            f"architecture {kind!r} has one embedding, which nothing can share; set it to false",
        )
    if embeddings.tied and not (
        task_type.level is Level.NEXT_TOKEN or task_type.output_type == OutputType.TOKENS
    ):
        yield (
            ("model", "embeddings", "tied"),
            f"the outputs of a {task.type.name} task are no tokens, which an embedding could be tied to; "
            "set it to false",
        )
    if not task.tokenizer.shared and all(stack.causal for stack in architecture.stacks):
        sides = {column.tokenizer for column in task_type.columns}
        if {"source", "target"} <= sides:
            yield (
                ("tokenizer",),
                f"a {kind} model reads source and target as one text: give one tokenizer, shared: true",
            )


def _room(task: Task, task_type: TaskType, architecture: Architecture) -> Iterator[Finding]:
    """Yields model.max_length if it has no room for tokens besides the special ones."""
    if task_type.packed or task_type.level not in architecture.levels:
        return
    length = task.model.max_length
    room = architecture.limits(length, task_type.level)
    sides = [room.input] * any(column.role == "input" for column in task_type.columns)
    sides += [room.output] * (task_type.level is Level.NEXT_TOKEN)
    if min([room.together - len(sides) + 1, *sides]) < 1:
        yield (
            ("model", "max_length"),
            f"{length} leaves no room for tokens of an example beside the special ones of architecture "
            f"{task.model.architecture.name!r}; raise it",
        )


def _sampling(task: Task, task_type: TaskType, registry: Registry) -> Iterator[Finding]:
    """Yields a tokenizer that samples its segmentation, if the task type joins and cuts texts only once."""

    def samples(tokenizer: type[Tokenizer]) -> bool:
        return tokenizer.sampling is not Tokenizer.sampling

    name = task.tokenizer.source.name
    if task_type.packed and samples(registry.load(Kind.TOKENIZER, name)):
        yield (
            ("tokenizer", "source"),
            f"tokenizer {name!r} cuts texts anew in every epoch, but a {task.type.name} task joins all texts "
            "and cuts them into pieces once; expected "
            + _names(registry, Kind.TOKENIZER, lambda other: not samples(other)),
        )


def fitting(registry: Registry, kind: Kind, fits: Callable[[Any], bool]) -> dict[str, Any]:
    """Returns the installed components of a kind that fit, by name; the built-in ones first."""
    entries = registry.entries(kind)
    components = {}
    for entry in sorted(entries, key=lambda entry: entry.distribution != BUILT_IN):
        if entry.state is EntryState.QUARANTINED:
            continue
        full = f"{entry.distribution}:{entry.name}"
        try:
            loaded = registry.load(kind, full)
            if fits(loaded):
                components[full if entry.state is EntryState.CONFLICT else entry.name] = loaded
        except (RegistryError, AttributeError):
            continue
    return components


def _names(registry: Registry, kind: Kind, fits: Callable[[Any], bool]) -> str:
    return " or ".join(map(repr, sorted(fitting(registry, kind, fits)))) or "nothing that is installed"


def _shown(values: frozenset[Level] | frozenset[str]) -> str:
    return " or ".join(sorted(values))
