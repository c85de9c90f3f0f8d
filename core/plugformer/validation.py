"""Whether a task can be trained: its components, alone and together, and its data; no example is read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from plugformer.callbacks import HookManager, create_callbacks
from plugformer.configuration.resolving import ResolvedTask, tokenizer_of
from plugformer.configuration.structure import components, kind_at
from plugformer.configuration.task import DecodingBlock, TokenizerSettings
from plugformer.data.encoding import sequences_of
from plugformer.errors import PlugformerError, RegistryError
from plugformer.experiment import Experiment
from plugformer.hooks import Run
from plugformer.interfaces import (
    SPECIAL_TOKENS,
    Architecture,
    Head,
    Level,
    Metric,
    Model,
    Optimizer,
    OutputType,
    TaskType,
    Tokenizer,
)
from plugformer.interfaces.spec import Sizes
from plugformer.model import build
from plugformer.model.dry_run import dry_run, example_batch
from plugformer.optimizer import optimizer_of
from plugformer.registry import EntryState, Kind, Registry
from plugformer.registry.discovery import BUILT_IN, guarded
from plugformer.reproducibility import random_stream
from plugformer.yaml_tree import Finding, KeyPath

__all__ = ["fitting", "measures", "reads", "serves", "validate"]

_SIZES = Sizes(source=len(SPECIAL_TOKENS), outputs=len(SPECIAL_TOKENS))
"""The sizes of a model that is built to see whether it can be built."""


def validate(
    resolved: ResolvedTask, rows: Mapping[str, Any] | None = None, *, data: bool = True
) -> Experiment:
    """Imports a task's components, constructs them, and runs the model once on a few tokens.

    Args:
        resolved: The task.
        rows: Examples in memory, by split.
        data: Whether to look for the data, too.

    Raises:
        ConfigurationError: Components refuse their options or do not fit together, or data are missing; all
            problems, each with its place.
    """
    experiment = Experiment.from_resolved(resolved, rows=rows)
    findings = list(_unfit(experiment))
    grouped = experiment.task.training.optimizer.groups or experiment.task.model.parametrization.options

    def add(more: Iterable[Finding]) -> None:
        """Adds what is wrong at places of which nothing has been said yet."""
        refused = {path for path, _ in findings}
        findings.extend(finding for finding in more if finding[0] not in refused)

    with random_stream(0, "trial"):
        add(_constructed(experiment))
        refused = {path for path, _ in findings}
        if ("model", "architecture") not in refused:
            add(_model_problems(experiment, computes=("model", "head") not in refused))
        if not findings and (grouped or experiment.task.training.callbacks):
            model, refused_by_hooks = _shown_to_hooks(experiment)
            add(refused_by_hooks)
        if not findings:
            add(_other_tokenizers(experiment))
    if data and ("data",) not in dict(findings):
        add(_data_problems(experiment))
    experiment.raise_for(findings)
    if grouped:
        optimizer_of(experiment, model)
    return experiment


def reads(task_type: TaskType, architecture: Architecture | type[Architecture]) -> bool:
    """Returns whether an architecture has the level of a task, and reads its inputs."""
    level = task_type.level
    return level in architecture.levels and architecture.reads(task_type.inputs, level)


def serves(head: type[Head], task_type: TaskType) -> bool:
    """Returns whether a head has the level and the output type of a task."""
    return task_type.level in head.levels and task_type.output_type in head.output_types


def measures(metric: type[Metric], task_type: TaskType) -> bool:
    """Returns whether a metric can measure a task's answers; one per character needs complete texts."""
    whole = task_type.level is Level.NEXT_TOKEN or getattr(metric, "unit", "targets") == "targets"
    return task_type.output_type in metric.accepts and whole


def fitting(registry: Registry, kind: Kind, fits: Callable[[Any], bool]) -> dict[str, Any]:
    """Returns the installed components of a kind that fit, by name; the built-in ones first."""
    components = {}
    for entry in sorted(registry.entries(kind), key=lambda entry: entry.distribution != BUILT_IN):
        full = f"{entry.distribution}:{entry.name}"
        try:
            component = None if entry.state is EntryState.QUARANTINED else registry.load(kind, full)
            if component is not None and fits(component):
                components[full if entry.state is EntryState.CONFLICT else entry.name] = component
        except (RegistryError, AttributeError):  # a broken plugin does not keep others from being offered
            continue
    return components


def _names(registry: Registry, kind: Kind, fits: Callable[[Any], bool]) -> str:
    """Returns the end of a message: what would fit instead."""
    names = sorted(fitting(registry, kind, fits))
    return f"; expected {' or '.join(map(repr, names)) or 'another one, but nothing that fits is installed'}"


def _unfit(experiment: Experiment) -> Iterator[Finding]:
    """Yields every component or setting that does not fit the others, and what would fit."""
    settings, registry, task_type = experiment.task.model, experiment.registry, experiment.task_type
    architecture, level = experiment.architecture, task_type.level
    name, task = settings.architecture.name, f"a {experiment.task.type.name} task"
    if not reads(task_type, architecture):
        expected = _names(registry, Kind.ARCHITECTURE, lambda other: reads(task_type, other))
        yield ("model", "architecture"), f"{name!r} does not fit {task}{expected}"
    head: Any = registry.load(Kind.HEAD, settings.head.name)
    if not serves(head, task_type):
        offered, wanted = " or ".join(sorted(head.output_types)), str(task_type.output_type)
        if level not in head.levels:
            offered, wanted = f"from {' or '.join(sorted(head.levels))}", f"from {level}"
        message = f"head {settings.head.name!r} predicts {offered}, {task} {wanted}"
        expected = _names(registry, Kind.HEAD, lambda other: serves(other, task_type))
        yield ("model", "head"), f"{message}{expected}"
    if getattr(head, "depends_on", "") == "batch" and experiment.task.training.batch_size is None:
        message = f"the loss of head {settings.head.name!r} (model.head) compares the examples of a batch"
        yield ("training", "batch_size"), f"{message}: say how many, such as 64, instead of batch_tokens"
    yield from unfit_metrics(experiment)
    for stack in {"encoder", "decoder"} - {*dict(architecture.stacks)}:
        if (overrides := getattr(settings, stack)) != type(overrides)():
            yield ("model", stack), f"architecture {name!r} has no {stack}; take these settings out"
    if settings.embeddings.shared and len(architecture.stacks) < 2:
        path = ("model", "embeddings", "shared")
        yield path, f"architecture {name!r} has one embedding, which nothing can share; set it to false"
    generates = level is Level.NEXT_TOKEN or task_type.output_type == OutputType.TOKENS
    if settings.embeddings.tied and not generates:
        path = ("model", "embeddings", "tied")
        yield path, f"the outputs of {task} are no tokens, so no embedding can be tied; set it to false"
    tokenizer = experiment.task.tokenizer
    one_text = "encoder" not in dict(architecture.stacks)
    sides = {column.tokenizer for column in task_type.columns}
    if one_text and not tokenizer.shared and {"source", "target"} <= sides:
        message = f"a {name} model reads source and target as one text: give one tokenizer, shared: true"
        yield ("tokenizer",), message
    source: Any = registry.load(Kind.TOKENIZER, tokenizer.source.name)
    if task_type.packed and source.sampling is not Tokenizer.sampling:
        message = (
            f"tokenizer {tokenizer.source.name!r} cuts texts differently in each epoch, {task} cuts them once"
        )
        yield ("tokenizer", "source"), f"{message}; choose another one"
    if not task_type.packed and level in architecture.levels:
        limits = architecture.limits(settings.max_length, level)
        room = [limits.input] * len(task_type.inputs)
        room += [limits.output] * (level is Level.NEXT_TOKEN)
        if min([limits.together - len(room) + 1, *room]) < 1:
            message = f"{settings.max_length} leaves no room for tokens besides the special ones; raise it"
            yield ("model", "max_length"), message
    yield from unfit_decoding(experiment)
    yield from _unfit_baselines(experiment)


def unfit_metrics(experiment: Experiment) -> Iterator[Finding]:
    """Yields metrics that cannot measure a task's answers, and those that can."""
    task, registry, task_type = experiment.task, experiment.registry, experiment.task_type
    head: Any = registry.load(Kind.HEAD, task.model.head.name)
    for index, block in enumerate(task.evaluation.metrics):
        metric: Any = registry.load(Kind.METRIC, block.name)
        if not measures(metric, task_type):
            known = task_type.output_type in metric.accepts
            accepted = "whole texts" if known else " or ".join(sorted(metric.accepts))
            message = f"metric {block.name!r} measures {accepted}, but a {task.type.name} task answers with"
            expected = _names(registry, Kind.METRIC, lambda other: measures(other, task_type))
            yield ("evaluation", "metrics", index), f"{message} {task_type.output_type}{expected}"
        elif getattr(metric, "probabilities", False) and not head.probabilities:
            expected = _names(registry, Kind.HEAD, lambda o: o.probabilities and serves(o, task_type))
            message = f"metric {block.name!r} needs probabilities, which head {task.model.head.name!r} lacks"
            yield ("evaluation", "metrics", index), f"{message}; heads that have them{expected}"


def unfit_decoding(experiment: Experiment) -> Iterator[Finding]:
    """Yields settings of the decoding of a task that decodes nothing."""
    task = experiment.task
    for name in ("name", "length", "pattern", "constraint"):
        changed = getattr(task.decoding, name) != DecodingBlock.model_fields[name].default
        if changed and experiment.task_type.level is not Level.NEXT_TOKEN:
            yield ("decoding", name), f"a {task.type.name} task decodes nothing; take it out"


def _unfit_baselines(experiment: Experiment) -> Iterator[Finding]:
    """Yields baselines that cannot learn the task, and those that can."""
    registry, task_type = experiment.registry, experiment.task_type
    for index, block in enumerate(experiment.baselines):
        baseline: Any = registry.load(Kind.BASELINE, block.name)
        if not baseline.fits(task_type):
            expected = _names(registry, Kind.BASELINE, lambda other: other.fits(task_type))
            message = f"baseline {block.name!r} cannot learn a {experiment.task.type.name} task{expected}"
            yield ("evaluation", "baselines", index), message


def _other_tokenizers(experiment: Experiment) -> Iterator[Finding]:
    """Yields tokenizers that come from a run and are other ones there."""
    tokenizer = experiment.task.tokenizer
    if tokenizer.run is not None:
        saved = TokenizerSettings.model_validate(tokenizer_of(Path(tokenizer.run)))
        if saved.model_copy(update={"run": tokenizer.run}) != tokenizer:
            message = f"the tokenizers of {tokenizer.run} have another name or other options; leave these out"
            yield ("tokenizer", "run"), message


def _data_problems(experiment: Experiment) -> list[Finding]:
    """Returns what the data component finds before it reads examples, such as missing files."""
    findings: list[Finding] = []
    columns = experiment.columns
    entry = experiment.registry.find(Kind.DATA, experiment.task.data.name)
    with _noted(findings, ("data", "name")):
        experiment.data.check_columns(columns)
    if not findings:
        with _noted(findings, ("data",)):
            problems = guarded(entry, "looking for problems", lambda: [*experiment.data.problems(columns)])
            findings += [(("data", *path), message) for path, message in problems]
    return findings


def _constructed(experiment: Experiment) -> list[Finding]:
    """Constructs the components that are not part of the model, and the optimizer; returns their errors."""
    findings: list[Finding] = []
    task, registry = experiment.task, experiment.registry
    found: list[Any] = [(path, kind_at(path), block) for path, block in components(task)]
    if task.decoding.pattern is not None:
        found.append((("decoding", "pattern"), Kind.CONSTRAINT, task.decoding.output_constraint))
    for path, kind, block in found:
        alone = path[0] != "model" or kind in (Kind.INITIALIZATION, Kind.PARAMETRIZATION)
        if alone and kind not in (Kind.CALLBACK, Kind.TASK_TYPE) and block.name:
            with _noted(findings, path):
                experiment.create(kind, block)
    with _noted(findings, ("training", "optimizer")):
        optimizer: Optimizer = experiment.create(Kind.OPTIMIZER, task.training.optimizer)
        entry = registry.find(Kind.OPTIMIZER, task.training.optimizer.name)
        guarded(entry, "building it", lambda: optimizer.build(nn.Linear(2, 2).named_parameters()))
    return findings


def _model_problems(experiment: Experiment, *, computes: bool) -> list[Finding]:
    """Returns what is wrong with the parts of the model; some are found only if it computes a batch."""
    findings: list[Finding] = []
    place = ("model", "architecture")
    entry = experiment.registry.find(Kind.ARCHITECTURE, experiment.task.model.architecture.name)
    task_type = experiment.task_type
    batch = example_batch(experiment.architecture, task_type.level, task_type.inputs)

    def run() -> None:
        one = np.ones((2, len(task_type.inputs) + 1), dtype=np.int64)
        sequences_of(experiment.architecture, one, one, task_type.level)
        failures = dry_run(experiment.spec, _SIZES, batch if computes else None)
        findings.extend((place if part is None else part.origin, message) for part, message in failures)

    with _noted(findings, place):
        guarded(entry, "building the model", run)
    return findings


def _shown_to_hooks(experiment: Experiment) -> tuple[Model, list[Finding]]:
    """Returns the model as the task's hooks leave it, without memory for it, and what they find wrong."""
    findings: list[Finding] = []
    task, registry = experiment.task, experiment.registry
    with torch.device("meta"):
        run = Run(Path(), task, build(experiment.spec, _SIZES), 1, 1, registry)
    callbacks, alone = create_callbacks(task.training.callbacks, registry), {}
    places = {name: ("training", "callbacks", index) for index, name in enumerate(callbacks)}
    for name, callback in callbacks.items():
        with _noted(findings, places[name]):
            alone[name] = HookManager([], lambda _: None, {name: callback})
    if not findings:
        for name in HookManager([], lambda _: None, callbacks).order("model_built"):
            with _noted(findings, places[name]):
                alone[name].ask("model_built", run=run)
    return run.model, findings


@contextmanager
def _noted(findings: list[Finding], path: KeyPath) -> Iterator[None]:
    """Adds an error of the block to the findings, at a place in the task."""
    try:
        yield
    except PlugformerError as error:
        findings.append((path, str(error)))
