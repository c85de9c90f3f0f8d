"""Reading a study: from a file, a dict, a command's options or several of them, on top of a protocol."""

from collections.abc import Sequence
from pathlib import Path

from plugformer.configuration import (
    Origin,
    Tree,
    check_settings,
    is_file,
    merge_layers,
    read_file,
    read_setting,
)
from plugformer.errors import ConfigurationError, nearest
from plugformer_ablation.design.blocks import Range
from plugformer_ablation.design.contradictions import contradictions
from plugformer_ablation.design.study import Place, Study

_OF_A_STUDY = {"study", "preset", "task", "tasks", "factors", "arms", "scales", "ladder", "seeds"}
"""Keys that no task has."""


def read_study(
    study: str | Tree,
    *,
    swaps: Sequence[str] = (),
    settings: Sequence[str] = (),
    tune: Sequence[str] = (),
    **keys: str | int | None,
) -> Study:
    """Reads a study, or makes one about a task from a command's options, which override the file.

    Args:
        study: A study file, a task file, the name of a task, or the tree of a dictionary like a study file.
        swaps: Factors, as `PATH=[VALUE, ...]`.
        settings: `KEY=VALUE` for all arms.
        tune: `KEY=[VALUE, ...]`.
        keys: Further keys of a study, for example `seeds`; None has no effect.

    Raises:
        ConfigurationError: The file cannot be read, or the study is wrong; all problems with their places.
    """
    tree = study if isinstance(study, Tree) else None
    if isinstance(study, str) and is_file(study):
        tree = read_file(Path(study), study)
    if tree is None or not (isinstance(study, Tree) or _OF_A_STUDY & tree.value.keys()):
        if not swaps:
            raise ConfigurationError(
                f"{study} is a task, and nothing is compared\n  write `plugformer ablate "
                f"{study} --swap 'model.attention=[mha, gqa]'`, or give a study file"
            )
        tree = Tree.of(str(study), Origin(str(study), folder=Path.cwd())).under(("task",))
    tree = _with_options(tree, {"swap": swaps, "set": settings, "tune": tune})
    for key, value in keys.items():
        if value is not None:
            option = Tree.of(value, Origin(f"--{key} {value}", folder=Path.cwd()))
            tree = tree.with_value((key,), option)
    tree = _with_numbers(_with_long_tasks(_with_preset(tree)))
    checked = check_settings(tree, Study)
    if checked.ladder and not checked.scales:
        origin = tree.origin(("ladder",)) or Origin("")
        for scale, derived in checked.ladder.scales.items():
            for key, value in derived.items():
                tree = tree.with_value(("scales", scale, key), Tree.of(value, origin))
        checked = check_settings(tree, Study)
    checked._tree = tree
    if findings := list(contradictions(checked)):
        raise checked.mistakes(findings)
    return checked


def _with_preset(tree: Tree) -> Tree:
    """Returns a study's tree on top of the protocol that it names.

    Raises:
        ConfigurationError: There is no such protocol.
    """
    name = tree.get(("preset",))
    if name is None:
        return tree
    files = {file.stem: file for file in sorted(Path(__file__).with_name("presets").glob("*.yaml"))}
    if name not in files:
        message = f"unknown preset {name!r}{nearest(str(name), files)}; known: {', '.join(files)}"
        raise ConfigurationError(f"{tree.origin(('preset',))}  preset: {message}")
    return merge_layers([read_file(files[name], f"preset {name}"), tree])


def _with_long_tasks(tree: Tree) -> Tree:
    """Returns a study's tree in which tasks that are given by name or file have the long form."""
    tasks = tree.get(("tasks",))
    for name, value in tasks.items() if isinstance(tasks, dict) else ():
        if isinstance(value, str):
            tree = tree.with_value(("tasks", name), tree.at(("tasks", name)).under(("task",)))
    return tree


def _with_numbers(tree: Tree) -> Tree:
    """Returns a study's tree with lists of numbers for what is tuned over a range."""
    arms = tree.get(("arms",), {})
    tunes: list[Place] = [("tune",)]
    tunes += [("arms", name, "tune") for name in arms] if isinstance(arms, dict) else []
    for place in tunes:
        tried = tree.get(place)
        for path, value in tried.items() if isinstance(tried, dict) else ():
            if isinstance(value, dict) and value.keys() & {"from", "to", "points"}:
                numbers = check_settings(tree.at((*place, path)), Range).numbers
                origin = tree.origin((*place, path)) or Origin("")
                keys: list[Place] = [(), *((number,) for number in range(len(numbers)))]
                places = dict.fromkeys(keys, (origin, origin))
                tree = tree.with_value((*place, path), Tree(numbers, places))
    return tree


def _with_options(tree: Tree, options: dict[str, Sequence[str]]) -> Tree:
    """Returns a study's tree with options, which override it; every value knows its option."""
    factors: set[str] = set()
    given: dict[tuple[str, str], Origin] = {}
    for key, argument in ((key, argument) for key, arguments in options.items() for argument in arguments):
        origin = Origin.of_argument(f"--{key}", argument)
        path, value = read_setting(argument, origin)
        name = ".".join(map(str, path))
        if before := given.get((key, name)):
            raise ConfigurationError(f"{origin}  {name}: is set twice; also by {before}")
        given[key, name] = origin
        if key != "swap":
            tree = tree.with_value((key, name), value)
            continue
        factor = merge_layers([Tree.of(name, origin).under(("path",)), value.under(("values",))])
        name = name if str(path[-1]) in {*factors, "scale", "task"} else str(path[-1])
        factors.add(name)
        tree = tree.with_value(("factors", name), factor)
    return tree
