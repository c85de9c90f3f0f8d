"""Reading a study: from a file, from a command's options, or both, the options on top."""

from collections.abc import Sequence
from pathlib import Path

from plugformer.configuration import (
    Key,
    Mapping,
    Node,
    Origin,
    Problem,
    Scalar,
    dotted,
    is_file,
    read_file,
    read_setting,
    report,
)
from plugformer.errors import ConfigurationError
from plugformer_ablation.study import Study

_BY_KEY = ("set", "factors", "tune")
"""Keys whose mappings take more keys from options; others are replaced."""


def read_study(
    name_or_file: str,
    *,
    swaps: Sequence[str] = (),
    settings: Sequence[str] = (),
    tune: Sequence[str] = (),
    **keys: str | int | None,
) -> Study:
    """Reads a study file, or makes a study about a task of a command's options.

    Options go above what a file says.

    Args:
        name_or_file: A study file, a task file, or the name of a task.
        swaps: Factors, as `PATH=[VALUE, ...]`.
        settings: `KEY=VALUE` for all arms.
        tune: `KEY=[VALUE, ...]`.
        keys: Further keys of a study, such as `seeds`; those that are None are not given.

    Raises:
        ConfigurationError: The file cannot be read, or the study is wrong; all problems with their places.
    """
    above = _from_options({"--swap": swaps, "--set": settings, "--tune": tune}, keys)
    tree = _file(name_or_file)
    if tree is None:
        tree = _about_task(name_or_file, above)
    return Study.of(_merged(tree, above))


def _file(name: str) -> Mapping | None:
    """Returns the study that a file holds; None for a task."""
    if not is_file(name):
        return None
    tree = read_file(Path(name), name)
    return tree if {"factors", "task"} & tree.items.keys() else None


def _about_task(name: str, options: Mapping) -> Mapping:
    if "factors" not in options.items:
        raise ConfigurationError(
            f"{name} is a task, and nothing is compared\n"
            f"  write `plugformer ablate {name} --swap 'model.attention=[mha, gqa]'`, or give a study file"
        )
    origin = Origin(name, folder=Path.cwd())
    return Mapping({"task": Scalar(name, origin)}, {"task": origin}, origin)


def _from_options(settings: dict[str, Sequence[str]], keys: dict[str, str | int | None]) -> Mapping:
    """Returns a study's tree of a command's options; every value says which option it is of."""
    tree, messages = Mapping({}, {}, Origin("options", folder=Path.cwd())), []
    arguments = [(option, argument) for option, given in settings.items() for argument in given]
    given: dict[tuple[str, tuple[Key, ...]], Origin] = {}
    for option, argument in arguments:
        origin = Origin.of_argument(option, argument)
        try:
            path, node = read_setting(argument, origin)
        except ConfigurationError as error:
            messages.append(str(error))
            continue
        if before := given.get((option, path)):
            messages.append(report([Problem(origin, path, f"is set twice; also by {before}")]))
            continue
        given[option, path] = origin
        if option == "--swap":
            _put(tree, "factors", _factor_name(tree, path), _factor(path, node, origin), origin)
        else:
            _put(tree, option.removeprefix("--"), dotted(path), node, origin)
    if messages:
        raise ConfigurationError("\n".join(messages))
    for key, value in keys.items():
        if value is not None:
            origin = Origin(f"--{key} {value}", folder=Path.cwd())
            tree.items[key], tree.keys[key] = Scalar(value, origin), origin
    return tree


def _put(tree: Mapping, key: str, inner: str, node: Node, origin: Origin) -> None:
    mapping = tree.items.setdefault(key, Mapping({}, {}, origin))
    tree.keys.setdefault(key, origin)
    if isinstance(mapping, Mapping):
        mapping.items[inner], mapping.keys[inner] = node, origin


def _factor(path: tuple[Key, ...], values: Node, origin: Origin) -> Mapping:
    items: dict[Key, Node] = {"path": Scalar(dotted(path), origin), "values": values}
    return Mapping(items, dict.fromkeys(items, origin), origin)


def _factor_name(tree: Mapping, path: tuple[Key, ...]) -> str:
    """Returns the last part of the path, or all of it where another factor is called so."""
    factors = tree.items.get("factors")
    taken = factors.items if isinstance(factors, Mapping) else {}
    return str(path[-1]) if str(path[-1]) not in taken else dotted(path)


def _merged(below: Mapping, above: Mapping) -> Mapping:
    items = {**below.items, **above.items}
    for key in _BY_KEY:
        mine, theirs = below.items.get(key), above.items.get(key)
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            items[key] = Mapping({**mine.items, **theirs.items}, mine.keys | theirs.keys, mine.origin)
    return Mapping(items, below.keys | above.keys, below.origin)
