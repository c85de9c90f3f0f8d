"""The structure of a merged task: its components, names and contradictions. Nothing is imported."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from plugformer.configuration.task import Component, Settings, Task, TokenizerSettings
from plugformer.errors import ConfigurationError, RegistryError, nearest
from plugformer.registry import Kind, Registry
from plugformer.registry.options import explain, model_at
from plugformer.yaml_tree import Finding, KeyPath, Problem, Tree, report

_KINDS = {kind.value: kind for kind in Kind} | {f"{kind}s": kind for kind in (Kind.METRIC, Kind.BASELINE)}
_KINDS |= {"callbacks": Kind.CALLBACK, "type": Kind.TASK_TYPE}


def names(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yields the names of components in a task's tree, or in the part of it at a path, with their paths."""
    model = model_at(Task, path)
    if model is not None and issubclass(model, Component | TokenizerSettings):
        at, name = ((*path, "name"), value.get("name")) if isinstance(value, dict) else (path, value)
        if isinstance(name, str):
            yield at, name
    items = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for key, child in items:
        yield from names(child, (*path, key))


def components(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Component]]:
    """Yields every component of a task, or of the part of it at a path, with its path."""
    if isinstance(value, Component):
        yield path, value
    items: Iterable[tuple[Any, Any]] = enumerate(value if isinstance(value, list) else ())
    if isinstance(value, BaseModel | dict):
        items = value.items() if isinstance(value, dict) else value  # dict(value) would call an option `keys`
    for key, child in items:
        yield from components(child, (*path, key))


def kind_at(path: KeyPath) -> Kind:
    """Returns the kind of the component at a path: its last key that names one."""
    return next(_KINDS[key] for key in reversed(path) if isinstance(key, str) and key in _KINDS)


def default_blocks(model: type[BaseModel] = Task) -> dict[str, Any]:
    """Returns the default components of a task, as the lowest layer."""
    items: dict[str, Any] = {}
    for key, field in model.model_fields.items():
        inner, default = field.annotation, field.default
        if isinstance(default, Component):
            items[key] = {"name": default.name, **default.options}
        elif isinstance(inner, type) and issubclass(inner, Settings) and (below := default_blocks(inner)):
            items[key] = below
    return items


S = TypeVar("S", bound=Settings)

_LOGGED = {"best", "event", "loss", "seconds", "single_best", "step", "steps"}
"""The keys of a line of metrics.jsonl besides the metrics and `token_accuracy`, which may be both."""


def check_structure(tree: Tree, registry: Registry, kinds: Container[str]) -> Task:
    """Returns the task that a merged tree describes; components of these kinds must be in the registry."""
    task, problems = _validated(tree, Task, ("extends",))
    findings = [] if task is None else [*contradictions(task)]
    for path, name in names(tree.value):
        if (kind := kind_at(path)) in kinds:
            try:
                registry.find(kind, name)
            except RegistryError as error:
                findings.append((path, str(error)))
    problems += [Problem(tree.origin(path), path, message) for path, message in findings]
    if task is None or problems:
        raise ConfigurationError(report(problems))
    return task


def check_settings(tree: Tree, model: type[S]) -> S:
    """Returns the settings that a document describes, or raises ConfigurationError with every problem."""
    settings, problems = _validated(tree, model)
    if settings is None:
        raise ConfigurationError(report(problems))
    return settings


def _validated(tree: Tree, model: type[S], also: Sequence[str] = ()) -> tuple[S | None, list[Problem]]:
    """Returns the settings of a tree and no problems, or None and its problems."""
    try:
        return model.model_validate(tree.value), []
    except ValidationError as error:
        return None, [located(problem, tree) for problem in explain(error, model, tree.value, also)]


def located(problem: Problem, tree: Tree) -> Problem:
    """Returns the problem with the place of the value, or of the key, that it is about."""
    return replace(problem, origin=tree.origin(problem.path, key=problem.at_key))


def contradictions(task: Task) -> Iterator[Finding]:
    """Yields every contradiction in a task whose single values are all valid."""
    model, longest = task.model, task.model.max_length - 1
    if task.data.streaming is not None and task.training.steps is None:
        yield ("data", "streaming"), "a stream has no epochs; give training.steps"
    if task.data.streaming is not None and task.training.resample:
        yield ("training", "resample"), "a stream is read once and cannot be drawn from; leave it out"
    if task.data.streaming is not None and task.data.split is not None:
        yield ("data", "split"), "streamed data cannot be split; name files for validation and test instead"
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        layers = stack.layers or model.layers
        for index in stack.per_layer:
            if index >= layers:
                message = f"there is no layer {index}: the {name} has {layers}, numbered 0 to {layers - 1}"
                yield ("model", name, "per_layer", index), message
    if model.embeddings.shared and not task.tokenizer.shared:
        message = "a shared embedding needs a shared tokenizer: give one tokenizer, or shared: false here"
        yield ("model", "embeddings", "shared"), message
    if isinstance(task.decoding.length, int) and task.decoding.length > longest:
        message = f"{task.decoding.length} is more than the {longest} that model.max_length leaves room for"
        yield ("decoding", "length"), message
    known = ["loss"]
    for index, metric in enumerate(task.evaluation.metrics):
        name, advice = metric.score_name, f"give this one another name: {{name: {metric.name}, as: NAME}}"
        if name in known[1:]:
            yield ("evaluation", "metrics", index), f"two scores are called {name!r}; {advice}"
        elif name in _LOGGED or (name == "token_accuracy" != metric.name):
            message = f"{name!r} is a figure that every evaluation has; {advice}"
            yield ("evaluation", "metrics", index), message
        known.append(name)
    monitor = task.monitor
    if monitor not in known:
        expected = " or ".join(map(repr, dict.fromkeys(known)))
        message = f"unknown metric {monitor!r}{nearest(monitor, known)}; expected {expected}"
        yield ("training", "monitor"), f"{message}, or add it to evaluation.metrics"
