"""What a study says, in a file, in a command's options or in both; what in it contradicts itself."""

from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, field_validator

from plugformer.configuration import (
    Key,
    MappingNode,
    Node,
    Origin,
    Problem,
    ScalarNode,
    Settings,
    check_settings,
    dotted,
    expand,
    is_file,
    origin_of,
    read_file,
    read_setting,
    report,
)
from plugformer.errors import ConfigurationError

TUNING_SEED = 2**20
"""The seed of all trainings that settings are chosen by: above those of a study, which must not see it."""

Seed = Annotated[int, Field(ge=0, lt=TUNING_SEED)]

MOST = 10_000
"""Trainings of a study: more are a mistake, and would fill the memory before they are trained."""

_SOLVED = {
    "parameters": ("model.ffn_width",),
    "flops": ("model.ffn_width",),
    "time": ("training.steps", "training.epochs"),
}
"""What each way of matching sets."""

_Place = tuple[Key, ...]


class Factor(Settings):
    """Something that arms differ in."""

    path: str = Field(description="The key of a task, such as model.attention.")
    values: list[Any] | dict[str, Any] = Field(
        min_length=2,
        description="What stands there: names, blocks or numbers, or such by what reports call them; "
        "the first belongs to the baseline.",
    )

    @property
    def keys(self) -> list[Key]:
        """The keys of the values: numbers in a list, else names."""
        return list(range(len(self.values))) if isinstance(self.values, list) else list(self.values)


class Study(Settings):
    """A whole study; one that was read from a tree knows where everything in it was written."""

    study: str = Field(default="", description="Its title.")
    task: str = Field(description="A task's name, or a file, relative to this one.")
    changes: dict[str, Any] = Field(
        default={}, alias="set", description="Settings of all arms on top of the task, by dotted keys."
    )
    factors: Annotated[dict[str, Factor], Field(min_length=1)] = Field(
        description="What is compared, by a name for each."
    )
    design: Literal["one-factor", "grid"] = Field(
        default="one-factor",
        description="Change one factor of the baseline at a time, or combine all values of all.",
    )
    seeds: Annotated[int, Field(ge=1, lt=TUNING_SEED)] | list[Seed] = Field(
        default=5, description="Trainings of each arm: a number, from seed 1 on, or a list of seeds."
    )
    match: Literal["none", "parameters", "flops", "time"] = Field(
        default="none",
        description="What arms have in common: feed-forward widths are solved for equal parameters or "
        "forward FLOPs per token, numbers of updates for equal training time.",
    )
    metric: str | None = Field(
        default=None, description="What decides, declared beforehand; the task's first metric if not given."
    )
    split: str | None = Field(
        default=None,
        description="What it is measured on; the first test split, or validation if there is none.",
    )
    tune: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default={},
        description="Settings that are chosen for each arm on validation, by dotted keys: the values to try.",
    )

    @field_validator("seeds")
    @classmethod
    def _each_once(cls, seeds: int | list[int]) -> int | list[int]:
        if isinstance(seeds, list) and (not seeds or len(set(seeds)) < len(seeds)):
            raise ValueError(f"expected at least one seed, and each once, found {seeds}")
        return seeds

    @property
    def seed_list(self) -> list[int]:
        """The seeds of each arm."""
        return self.seeds if isinstance(self.seeds, list) else list(range(1, self.seeds + 1))

    _tree: MappingNode = PrivateAttr()

    @classmethod
    def of(cls, tree: MappingNode) -> "Study":
        """Returns the study that a tree describes.

        Raises:
            ConfigurationError: Something in it is wrong or contradicts something else; all with places.
        """
        study = check_settings(tree, cls)
        study._tree = tree
        if problems := [study.problem(*finding) for finding in _contradictions(study)]:
            raise ConfigurationError(report(problems))
        return study

    @property
    def title(self) -> str:
        """What reports call it."""
        return self.study or f"{self.task}: {', '.join(self.factors)}"

    @property
    def task_path(self) -> str:
        """The task's name, or the absolute path of its file."""
        return str(expand(self.task, self.node("task").origin)) if is_file(self.task) else self.task

    def node(self, *path: Key) -> Node:
        """Returns the node at a path, which must be there."""
        node: Node = self._tree
        for key in path:
            node = node.items[key]  # type: ignore[index,union-attr]  # a list takes numbers, a mapping keys
        return node

    def place(self, *path: Key) -> Origin:
        """Returns the place of a key in its file."""
        mapping = self.node(*path[:-1])
        return mapping.keys[path[-1]] if isinstance(mapping, MappingNode) else mapping.origin

    def problem(self, path: _Place, message: str, hint: str = "") -> Problem:
        """Returns a problem with the value at a path, located where it was written."""
        return Problem(origin_of(self._tree, path), path, message, hint)


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
        tree = MappingNode({"task": ScalarNode(name_or_file, origin)}, {"task": origin}, origin)
    _add_options(tree, {"--swap": swaps, "--set": settings, "--tune": tune}, keys)
    return Study.of(tree)


def _contradictions(study: Study) -> Iterator[tuple[_Place, str]]:
    """Yields contradictions: too many trainings, settings given twice, or set by the study itself."""
    if too_many := list(_too_many(study)):
        yield from too_many  # looking further would take long
        return
    factors: dict[_Place, str] = {("factors", name): each.path for name, each in study.factors.items()}
    tuned: dict[_Place, str] = {("tune", path): path for path in study.tune}
    fixed: dict[_Place, str] = {("set", path): path for path in study.changes}
    for place, path in {**factors, **tuned, **fixed}.items():
        if not all(path.split(".")):
            message = f"expected keys with dots between them, such as model.attention, found {path!r}"
            yield (*place, "path") if place in factors else place, message
    varied: dict[str, _Place] = {}
    for place, path in {**factors, **tuned}.items():
        for other, there in varied.items():
            if _within(path, other) or _within(other, path):
                message = f"{path!r} is changed by {_named(there)}, too: let one of them have whole blocks"
                yield (*place, "path") if place in factors else place, message
        varied[path] = place
    for path, place in varied.items():
        yield from _reserved(place, path, study)
    for path in study.changes:
        for other, place in varied.items():
            if _within(path, other):
                yield ("set", path), f"has no effect: {_named(place)} puts another value there"
        if path == "training.seed":
            yield ("set", path), "is given by the study: write the seeds under `seeds`"


def _too_many(study: Study) -> Iterator[tuple[_Place, str]]:
    """Counts trainings without making a list of them."""
    values = [len(factor.values) for factor in study.factors.values()]
    arms = prod(values) if study.design == "grid" else 1 + sum(number - 1 for number in values)
    seeds = study.seeds if isinstance(study.seeds, int) else len(study.seeds)
    tried = prod(map(len, study.tune.values())) if study.tune else 0
    if (trainings := arms * (seeds + tried)) > MOST:
        yield (
            ("factors",),
            f"{_short(arms)} arms with {seeds:,} seeds and {_short(tried)} settings to try are "
            f"{_short(trainings)} trainings, expected at most {MOST:,}: leave values, seeds or settings out"
            f"{', or write `design: one-factor`' if study.design == 'grid' else ''}",
        )


def _short(number: int) -> str:
    return f"{number:,}" if number < 10**12 else "more than 10^12"


def _reserved(place: _Place, path: str, study: Study) -> Iterator[tuple[_Place, str]]:
    if _within(path, "evaluation") or _within(path, "training.monitor"):
        yield place, f"{path!r} says how arms are measured, which must be the same for all: use `set`"
    if _within("training.seed", path):
        yield place, f"{path!r} is given by the study: write the seeds under `seeds`"
    for solved in _SOLVED.get(study.match, ()):
        if _within(solved, path) or _within(path, solved):
            yield place, f"{path!r} is what `match: {study.match}` sets: write `match: none`"


def _within(path: str, outer: str) -> bool:
    return f"{path}.".startswith(f"{outer}.")


def _named(place: _Place) -> str:
    return f"the factor {place[1]!r}" if place[0] == "factors" else f"tune {place[1]!r}"


def _add_options(
    tree: MappingNode, settings: dict[str, Sequence[str]], keys: dict[str, str | int | None]
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
        inner = tree.items.setdefault(key, MappingNode({}, {}, origin))
        tree.keys.setdefault(key, origin)
        if isinstance(inner, MappingNode):
            inner.items[name], inner.keys[name] = node, origin
    if messages:
        raise ConfigurationError("\n".join(messages))
    for key, value in keys.items():
        if value is not None:
            origin = Origin(f"--{key} {value}", folder=Path.cwd())
            tree.items[key], tree.keys[key] = ScalarNode(value, origin), origin


def _factor(path: tuple[Key, ...], values: Node, origin: Origin) -> MappingNode:
    items: dict[Key, Node] = {"path": ScalarNode(dotted(path), origin), "values": values}
    return MappingNode(items, dict.fromkeys(items, origin), origin)
