"""The structure of a merged task: its components, names and contradictions. Nothing is imported."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from plugformer.configuration.task import Component, Settings, Task, TokenizerSettings
from plugformer.errors import ConfigurationError, RegistryError, nearest
from plugformer.registry import Kind, Registry
from plugformer.registry.options import explain, keys_of, model_at
from plugformer.yaml_tree import (
    Finding,
    Key,
    KeyPath,
    MappingNode,
    Node,
    Origin,
    Problem,
    ScalarNode,
    SequenceNode,
    plain,
    report,
)

_KINDS = {"metrics": Kind.METRIC, "hooks": Kind.HOOK, "type": Kind.TASK_TYPE} | {
    kind.value: kind for kind in Kind
}
DEFAULT = Origin("default")
"""The origin of defaults."""


@dataclass(frozen=True, slots=True)
class Block:
    """A component in a task's tree; keys of its mapping in `core` do not belong to the component.

    `base` is the block of the same kind around one without a name, which has its name and its options.
    """

    path: KeyPath
    kind: Kind
    node: Node
    core: frozenset[str]
    base: "Block | None" = None

    @property
    def name(self) -> ScalarNode | None:
        """The node of the component's name; None where there is none that is text."""
        if self.base is not None:
            return self.base.name
        node = self.node.items.get("name") if isinstance(self.node, MappingNode) else self.node
        return node if isinstance(node, ScalarNode) and isinstance(node.value, str) else None

    @property
    def name_path(self) -> KeyPath:
        """The keys that lead to the name."""
        return (*self.path, "name") if isinstance(self.node, MappingNode) else self.path

    @property
    def options(self) -> MappingNode:
        """The component's own options."""
        items = self.node.items if isinstance(self.node, MappingNode) else {}
        own = {} if self.base is None else dict(self.base.options.items)
        own |= {key: item for key, item in items.items() if key not in {"name", *self.core}}
        return MappingNode(own, dict.fromkeys(own, self.node.origin), self.node.origin)


def blocks(tree: Node, path: KeyPath = (), outer: Block | None = None) -> Iterator[Block]:
    """Yields every component of a task's tree, or of the part of it at a path inside of an outer block."""
    model = model_at(Task, path)
    if isinstance(tree, ScalarNode) and tree.value is None:
        return
    if model is not None and issubclass(model, Component | TokenizerSettings) and not names_sides(tree):
        nameless = isinstance(tree, MappingNode) and "name" not in tree.items
        base = outer if nameless and outer is not None and outer.kind is kind_at(path) else None
        outer = Block(path, kind_at(path), tree, core_keys(model), base)
        yield outer
    if not isinstance(tree, ScalarNode):
        items = tree.items.items() if isinstance(tree, MappingNode) else enumerate(tree.items)
        for key, child in items:
            yield from blocks(child, (*path, key), outer)


def block_of(node: Node) -> MappingNode | None:
    """Returns a component's block; a name alone counts as a block with a name."""
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        return MappingNode({"name": node}, {"name": node.origin}, node.origin)
    return node if isinstance(node, MappingNode) else None


def names_sides(node: Node) -> bool:
    """Whether a node gives a tokenizer for each side."""
    return isinstance(node, MappingNode) and not {"source", "target"}.isdisjoint(node.items)


def core_keys(model: type[BaseModel] | None) -> frozenset[str]:
    """Returns the keys of a component's block that belong to the core: `split` and others for data."""
    keys = frozenset() if model is None else keys_of(model)
    return keys - {"name", "source", "target"}


def kind_at(path: KeyPath) -> Kind:
    """Returns the kind of the component at a path: its last key that names one."""
    return next(_KINDS[key] for key in reversed(path) if isinstance(key, str) and key in _KINDS)


def default_blocks(model: type[BaseModel] = Task) -> MappingNode:
    """Returns the default components of a task, as the lowest layer."""
    items: dict[Key, Node] = {}
    for key, field in model.model_fields.items():
        inner, default = field.annotation, field.default
        if isinstance(default, Component):
            values = {"name": default.name, **default.options}
            block: dict[Key, Node] = {name: ScalarNode(value, DEFAULT) for name, value in values.items()}
            items[key] = MappingNode(block, dict.fromkeys(block, DEFAULT), DEFAULT)
        elif (
            isinstance(inner, type) and issubclass(inner, Settings) and (below := default_blocks(inner)).items
        ):
            items[key] = below
    return MappingNode(items, dict.fromkeys(items, DEFAULT), DEFAULT)


S = TypeVar("S", bound=Settings)

_LOGGED = {"best", "event", "loss", "seconds", "single_best", "step", "steps"}
"""The keys of a line of metrics.jsonl besides the metrics and `token_accuracy`, which may be both."""


def check_structure(tree: MappingNode, registry: Registry, kinds: Container[str]) -> Task:
    """Returns the task that a merged tree describes; components of these kinds must be in the registry."""
    task, problems = _validated(tree, Task, ("extends",))
    for block in blocks(tree):
        if block.name is not None and block.kind in kinds:
            try:
                registry.find(block.kind, str(block.name.value))
            except RegistryError as error:
                problems.append(Problem(origin_of(tree, block.name_path), block.name_path, str(error)))
    findings = () if task is None else contradictions(task)
    problems += [Problem(origin_of(tree, path), path, message) for path, message in findings]
    if task is None or problems:
        raise ConfigurationError(report(problems))
    return task


def check_settings(tree: MappingNode, model: type[S]) -> S:
    """Returns the settings that a document describes, or raises ConfigurationError with every problem."""
    settings, problems = _validated(tree, model)
    if settings is None:
        raise ConfigurationError(report(problems))
    return settings


def _validated(tree: MappingNode, model: type[S], also: Sequence[str] = ()) -> tuple[S | None, list[Problem]]:
    """Returns the settings of a tree and no problems, or None and its problems."""
    written = plain(tree)
    try:
        return model.model_validate(written), []
    except ValidationError as error:
        return None, [located(problem, tree) for problem in explain(error, model, written, also)]


def located(problem: Problem, tree: MappingNode) -> Problem:
    """Returns the problem with the place of the value, or of the key, that it is about."""
    return replace(problem, origin=origin_of(tree, problem.path, key=problem.at_key))


def contradictions(task: Task) -> Iterator[Finding]:
    """Yields every contradiction in a task whose single values are all valid."""
    model, longest = task.model, task.model.max_length - 1
    if task.data.streaming is not None and task.training.steps is None:
        yield ("data", "streaming"), "a stream has no epochs; give training.steps"
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
    monitor = task.training.monitor
    if monitor not in known:
        expected = " or ".join(map(repr, dict.fromkeys(known)))
        message = f"unknown metric {monitor!r}{nearest(monitor, known)}; expected {expected}"
        yield ("training", "monitor"), f"{message}, or add it to evaluation.metrics"


def origin_of(tree: MappingNode, path: KeyPath, *, key: bool = False) -> Origin | None:
    """Returns the origin of the value at a path, or of the innermost mapping around it that was written.

    The sides of a tokenizer that is written once for both are skipped. With `key`, the origin is the key's.
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
