"""The `--set KEY=VALUE` arguments, as one mapping like a task file's."""

from collections.abc import Iterable

from plugformer.configuration.blocks import block_of
from plugformer.errors import ConfigurationError
from plugformer.problems import KeyPath, Origin, Problem, dotted, report
from plugformer.yaml_tree import MappingNode, Node, ScalarNode, read_text


def read_overrides(arguments: Iterable[str]) -> MappingNode:
    """Reads arguments such as `model.attention=gqa`, in any order; values are YAML.

    Shorter keys apply first, so that `model.attention=gqa` and `model.attention.kv_heads=2` combine.

    Raises:
        ConfigurationError: An argument is not KEY=VALUE, its value is not YAML, a key is given twice, or goes
            into a value that is not a mapping; all of them together.
    """
    settings: list[tuple[KeyPath, Node]] = []
    messages: list[str] = []
    for argument in arguments:
        try:
            settings.append(read_setting(argument, Origin.of_argument("--set", argument)))
        except ConfigurationError as error:
            messages.append(str(error))
    root = MappingNode({}, {}, Origin("--set"))
    problems: list[Problem] = []
    for path, node in sorted(settings, key=lambda setting: len(setting[0])):
        problems += _insert(root, path, node)
    if problems or messages:
        raise ConfigurationError("\n".join([*messages, *([report(problems)] if problems else [])]))
    return root


def read_setting(argument: str, origin: Origin) -> tuple[KeyPath, Node]:
    """Reads `KEY=VALUE`; returns the keys that lead to the value, and the value.

    Raises:
        ConfigurationError: The argument is not KEY=VALUE, or its value is not YAML.
    """
    key, equals, text = argument.partition("=")
    path = keys(key.strip())
    if not equals or "" in path:
        raise Problem(origin, (), "expected KEY=VALUE with a dotted key, such as model.attention=gqa").error
    return path, read_text(text, origin) or ScalarNode(None, origin)


def keys(dotted: str) -> KeyPath:
    """Returns the keys of `model.encoder.per_layer.0`; numbers are short, since Python refuses long ones."""
    return tuple(int(key) if key.isdecimal() and len(key) < 10 else key for key in dotted.split("."))


def nested(dotted: str, node: Node, origin: Origin) -> MappingNode:
    """Returns a tree like a task file's with one value.

    Args:
        dotted: The keys, such as `model.encoder.attention`.
        node: The value.
        origin: Where the keys were written.
    """
    *outer, last = keys(dotted)
    tree = MappingNode({last: node}, {last: origin}, origin)
    for key in reversed(outer):
        tree = MappingNode({key: tree}, {key: origin}, origin)
    return tree


def _insert(root: MappingNode, path: KeyPath, node: Node) -> list[Problem]:
    """Puts a value into the tree and makes the mappings on its way; a component's name becomes a block."""
    inner = root
    for depth, key in enumerate(path[:-1], start=1):
        below = inner.items.get(key, MappingNode({}, {}, node.origin))
        child = block_of(below)
        if child is None:
            message = f"cannot be set: {dotted(path[:depth])} is given a value by {below.origin}"
            return [Problem(node.origin, path, message)]
        inner.items[key] = child
        inner.keys.setdefault(key, node.origin)
        inner = child
    if path[-1] in inner.items:
        return [Problem(node.origin, path, f"is set twice; also by {inner.items[path[-1]].origin}")]
    inner.items[path[-1]] = node
    inner.keys[path[-1]] = node.origin
    return []
