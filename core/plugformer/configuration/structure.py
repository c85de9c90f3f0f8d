"""The first pass over a merged task: its structure, names and contradictions. Nothing is imported."""

from collections.abc import Container, Iterator
from dataclasses import replace
from typing import TypeVar

from pydantic import ValidationError

from plugformer.configuration.blocks import DEFAULT, blocks
from plugformer.configuration.task import Settings, Task
from plugformer.errors import ConfigurationError, RegistryError, nearest
from plugformer.explanations import explain
from plugformer.kinds import Kind
from plugformer.problems import Finding, KeyPath, Origin, Problem, report
from plugformer.registry import Registry
from plugformer.yaml_tree import MappingNode, Node, SequenceNode, plain

S = TypeVar("S", bound=Settings)

_LOGGED = {"best", "event", "loss", "seconds", "single_best", "step", "steps"}
"""The keys of a line of metrics.jsonl besides the metrics and `token_accuracy`, which may be both."""


def check_structure(tree: MappingNode, registry: Registry, kinds: Container[str] = tuple(Kind)) -> Task:
    """Returns the task that a merged tree describes.

    Args:
        tree: The merged layers.
        registry: Where names are looked up.
        kinds: Kinds of components that must be known.

    Raises:
        ConfigurationError: Keys are unknown or missing, values of the wrong type or out of range, components
            unknown, settings contradict each other; every problem with its place.
    """
    problems: list[Problem] = list(_unknown_names(tree, registry, kinds))
    written = plain(tree)
    try:
        task = Task.model_validate(written)
    except ValidationError as error:
        problems += [located(problem, tree) for problem in explain(error, Task, written, also=("extends",))]
    else:
        problems += [Problem(origin_of(tree, path), path, message) for path, message in contradictions(task)]
        if not problems:
            return task
    raise ConfigurationError(report(problems))


def check_settings(tree: MappingNode, model: type[S]) -> S:
    """Returns the settings that a document describes.

    Args:
        tree: The document.
        model: Its form, derived from `Settings`.

    Raises:
        ConfigurationError: Keys are unknown or missing, values of the wrong type or out of range; every
            problem with its place.
    """
    written = plain(tree)
    try:
        return model.model_validate(written)
    except ValidationError as error:
        problems = [located(problem, tree) for problem in explain(error, model, written)]
        raise ConfigurationError(report(problems)) from None


def located(problem: Problem, tree: MappingNode) -> Problem:
    """Returns the problem with the place of the value, or of the key, that it is about."""
    return replace(problem, origin=origin_of(tree, problem.path, key=problem.at_key))


def _unknown_names(tree: MappingNode, registry: Registry, kinds: Container[str]) -> Iterator[Problem]:
    for block in blocks(tree):
        if block.name is not None and block.kind in kinds:
            try:
                registry.find(block.kind, str(block.name.value))
            except RegistryError as error:
                yield Problem(origin_of(tree, block.name_path), block.name_path, str(error))


def contradictions(task: Task) -> Iterator[Finding]:
    """Yields every contradiction in a task whose single values are all valid."""
    model, longest = task.model, task.model.max_length - 1
    if task.data.streaming is not None and task.training.steps is None:
        yield ("data", "streaming"), "a stream has no epochs; give training.steps"
    if task.data.streaming is not None and task.data.split is not None:
        message = "streamed data cannot be split; name files for validation and test instead"
        yield ("data", "split"), message
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        layers = stack.layers or model.layers
        for index in stack.per_layer:
            if index >= layers:
                message = f"there is no layer {index}: the {name} has {layers}, numbered 0 to {layers - 1}"
                yield ("model", name, "per_layer", index), message
    yield from _scores(task)
    if model.embeddings.shared and not task.tokenizer.shared:
        message = "a shared embedding needs a shared tokenizer: give one tokenizer, or shared: false here"
        yield ("model", "embeddings", "shared"), message
    if isinstance(task.decoding.length, int) and task.decoding.length > longest:
        message = f"{task.decoding.length} is more than the {longest} that model.max_length leaves room for"
        yield ("decoding", "length"), message


def _scores(task: Task) -> Iterator[Finding]:
    known = ["loss"]
    for index, metric in enumerate(task.evaluation.metrics):
        name, advice = metric.score_name, f"give this one another name: {{name: {metric.name}, as: NAME}}"
        if name in known[1:]:
            yield ("evaluation", "metrics", index), f"two scores are called {name!r}; {advice}"
        elif name in _LOGGED or (name == "token_accuracy" != metric.name):
            message = f"{name!r} is a figure that every evaluation has; {advice}"
            yield ("evaluation", "metrics", index), message
        known.append(name)
    monitor = task.training.monitor
    if monitor not in known:
        expected = " or ".join(map(repr, dict.fromkeys(known)))
        message = f"unknown metric {monitor!r}{nearest(monitor, known)}; expected {expected}"
        yield ("training", "monitor"), f"{message}, or add it to evaluation.metrics"


def origin_of(tree: MappingNode, path: KeyPath, *, key: bool = False) -> Origin | None:
    """Returns the origin of the value at a path, or of the innermost mapping around it that was written.

    Args:
        tree: The merged layers.
        path: The keys that lead to the value; the sides of a tokenizer given once for both are skipped.
        key: Whether to return the origin of the value's key.
    """
    node: Node = tree
    innermost = tree.origin
    for part in path:
        if isinstance(node, MappingNode) and part in node.items:
            origin = node.keys[part] if key and part == path[-1] else node.items[part].origin
            node = node.items[part]
        elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            origin = node.origin
        else:
            continue
        innermost = innermost if origin == DEFAULT else origin
    return None if innermost == DEFAULT else innermost
