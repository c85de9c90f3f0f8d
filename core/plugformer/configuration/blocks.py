"""The components in a task's tree, and their kinds."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from plugformer.configuration.task import Component, Task, TokenizerSettings
from plugformer.explanations import keys_of, model_at
from plugformer.kinds import Kind
from plugformer.problems import Key, KeyPath, Origin
from plugformer.yaml_tree import MappingNode, Node, ScalarNode, SequenceNode

_KINDS = {kind.value: kind for kind in Kind} | {
    "metrics": Kind.METRIC,
    "hooks": Kind.HOOK,
    "type": Kind.TASK_TYPE,
}
DEFAULT = Origin("default")
"""The origin of defaults."""


@dataclass(frozen=True, slots=True)
class Block:
    """A component in a task's tree.

    Attributes:
        path: The keys that lead to it.
        kind: Its kind.
        node: What is written there: a name, or a mapping with a name and options.
        core: Keys of the mapping that belong to the core, not to the component.
    """

    path: KeyPath
    kind: Kind
    node: Node
    core: frozenset[str]

    @property
    def name(self) -> ScalarNode | None:
        """The node of the component's name; None where there is none that is text."""
        node = self.node.items.get("name") if isinstance(self.node, MappingNode) else self.node
        return node if isinstance(node, ScalarNode) and isinstance(node.value, str) else None

    @property
    def name_path(self) -> KeyPath:
        """The keys that lead to the name."""
        return (*self.path, "name") if isinstance(self.node, MappingNode) else self.path

    @property
    def options(self) -> MappingNode:
        """The component's own options."""
        if not isinstance(self.node, MappingNode):
            return MappingNode({}, {}, self.node.origin)
        taken = {"name", *self.core}
        options = {key: item for key, item in self.node.items.items() if key not in taken}
        return MappingNode(options, self.node.keys, self.node.origin)


def blocks(tree: Node, path: KeyPath = ()) -> Iterator[Block]:
    """Yields every component of a task's tree, or of the part of it at a path."""
    model = model_at(Task, path)
    if is_block(model, tree):
        yield Block(path, kind_at(path), tree, core_keys(model))
    elif isinstance(tree, MappingNode):
        for key, child in tree.items.items():
            yield from blocks(child, (*path, key))
    elif isinstance(tree, SequenceNode):
        for index, child in enumerate(tree.items):
            yield from blocks(child, (*path, index))


def block_of(node: Node) -> MappingNode | None:
    """Returns a component's block; a name alone counts as a block with a name."""
    if isinstance(node, MappingNode):
        return node
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        return MappingNode({"name": node}, {"name": node.origin}, node.origin)
    return None


def is_block(model: type[BaseModel] | None, node: Node) -> bool:
    """Whether a node is one component; a tokenizer may be one, or one for each side."""
    if model is None or (isinstance(node, ScalarNode) and node.value is None):
        return False
    if issubclass(model, TokenizerSettings):
        return not (isinstance(node, MappingNode) and names_sides(node))
    return issubclass(model, Component)


def names_sides(node: MappingNode) -> bool:
    """Whether the mapping gives a tokenizer for each side."""
    return not {"source", "target"}.isdisjoint(node.items)


def core_keys(model: type[BaseModel] | None) -> frozenset[str]:
    """Returns the keys of a component's block that belong to the core: `split` and others for data."""
    keys = frozenset() if model is None else keys_of(model)
    return keys - {"name", "source", "target"}


def kind_at(path: KeyPath) -> Kind:
    """Returns the kind of the component at a path: its last key that names one."""
    return next(_KINDS[key] for key in reversed(path) if isinstance(key, str) and key in _KINDS)


def default_blocks(model: type[BaseModel] = Task) -> MappingNode:
    """Returns the default components of a task, as the lowest layer."""
    root = MappingNode({}, {}, DEFAULT)
    for key, field in model.model_fields.items():
        inner, default = field.annotation, field.default
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            continue
        if isinstance(default, Component):
            values = {"name": default.name, **default.options}
            items: dict[Key, Node] = {name: ScalarNode(value, DEFAULT) for name, value in values.items()}
            root.items[key] = MappingNode(items, dict.fromkeys(items, DEFAULT), DEFAULT)
        elif not issubclass(inner, Component) and (child := default_blocks(inner)).items:
            root.items[key] = child
    root.keys.update(dict.fromkeys(root.items, DEFAULT))
    return root
