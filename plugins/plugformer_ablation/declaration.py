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
    tree = read_file(Path(name_or_file), name_or_file) if is_file(name_or_file) else None
    if tree is None or not {"factors", "task"} & tree.items.keys():
        if not swaps:
            raise ConfigurationError(
                f"{name_or_file} is a task, and nothing is compared\n  write `plugformer ablate "
                f"{name_or_file} --swap 'model.attention=[mha, gqa]'`, or give a study file"
            )
        origin = Origin(name_or_file, folder=Path.cwd())
        tree = Mapping({"task": Scalar(name_or_file, origin)}, {"task": origin}, origin)
    _add_options(tree, {"--swap": swaps, "--set": settings, "--tune": tune}, keys)
    return Study.of(tree)


def _add_options(
    tree: Mapping, settings: dict[str, Sequence[str]], keys: dict[str, str | int | None]
) -> None:
    """Puts what options say above what a study's tree says; every value knows which option it is of."""
    messages, factors = [], set()
    given: dict[tuple[str, tuple[Key, ...]], Origin] = {}
    for option, argument in ((option, each) for option, several in settings.items() for each in several):
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
        key, name = option.removeprefix("--"), dotted(path)
        if option == "--swap":
            key, node = "factors", _factor(path, node, origin)
            name = name if str(path[-1]) in factors else str(path[-1])
            factors.add(name)
        inner = tree.items.setdefault(key, Mapping({}, {}, origin))
        tree.keys.setdefault(key, origin)
        if isinstance(inner, Mapping):
            inner.items[name], inner.keys[name] = node, origin
    if messages:
        raise ConfigurationError("\n".join(messages))
    for key, value in keys.items():
        if value is not None:
            origin = Origin(f"--{key} {value}", folder=Path.cwd())
            tree.items[key], tree.keys[key] = Scalar(value, origin), origin


def _factor(path: tuple[Key, ...], values: Node, origin: Origin) -> Mapping:
    items: dict[Key, Node] = {"path": Scalar(dotted(path), origin), "values": values}
    return Mapping(items, dict.fromkeys(items, origin), origin)
