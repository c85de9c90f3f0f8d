"""What a study says, in a file, in a dict, in a command's options or in several of them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr, field_validator

from plugformer.configuration import (
    Origin,
    Settings,
    Tree,
    check_settings,
    is_file,
    merge_layers,
    read_file,
    read_setting,
    setting_keys,
    short_name,
)
from plugformer.errors import ConfigurationError, nearest

TUNING_SEED = 2**20
"""The seed of all trials of tuning; it is above those of a study, which must not see it."""

SCREENING_SEED = TUNING_SEED + 100
"""The first seed of screening, above those of tuning."""

Seed = Annotated[int, Field(ge=0, lt=TUNING_SEED)]

MOST = 10_000
"""Largest number of trainings of a study; a grid with more is a mistake."""

BUDGETS = ("tokens", "operations")
"""What of whole trainings can be equal without being measured."""

_SOLVED = {
    **dict.fromkeys(("parameters", "flops"), ("model.ffn_width",)),
    **dict.fromkeys(("time", *BUDGETS), ("training.steps", "training.epochs")),
}
"""The settings that each way of matching changes."""


def _share(text: str) -> str:
    """Returns a share in percent; raises ValueError if it is none."""
    if not re.fullmatch(r"[0-9]*\.?[0-9]+ ?%", text) or not float(text.rstrip(" %")):
        raise ValueError(f"a positive share such as 0.5 %, found {text!r}")
    return text


Effect = Annotated[float, Field(gt=0)] | Annotated[str, AfterValidator(_share)]
"""A difference of a metric, or a share of its value in percent."""

Keep = Literal["results", "best", "all"]

Place = tuple[str | int, ...]
"""The keys that lead to a value of a study."""


class Factor(Settings):
    """A setting in which arms differ."""

    path: str = Field(description="The key of a task, for example model.attention.")
    values: list[Any] | dict[str, Any] = Field(
        min_length=2,
        description="Names, blocks or numbers, or a mapping from names that reports use to values; the first "
        "belongs to the baseline.",
    )


class Range(Settings):
    """Numbers to try, each the same multiple of the one before."""

    low: float = Field(alias="from", gt=0, description="The smallest number.")
    high: float = Field(alias="to", gt=0, description="The largest one.")
    points: int = Field(ge=2, le=100, description="How many there are, both included.")

    @property
    def numbers(self) -> list[float]:
        """The numbers, to three digits."""
        ratio = (self.high / self.low) ** (1 / (self.points - 1))
        return [float(f"{self.low * ratio**number:.3g}") for number in range(self.points)]


class Tuning(Settings):
    """How settings are tuned, the same for all arms."""

    strategy: Literal["grid", "coordinate", "halving"] = Field(
        default="grid",
        description="`grid` tries combinations of all values; `coordinate` starts with the first values and "
        "changes one setting at a time, until no change is better; `halving` begins with short trainings and "
        "doubles their updates for the better half, until they are whole.",
    )
    trials: int | None = Field(
        default=None,
        ge=2,
        description="So many combinations for each arm, drawn at random; all of them if null.",
    )
    seeds: Literal["each"] | Annotated[int, Field(ge=1, le=100)] = Field(
        default="each",
        description="`each` seed of the study tries all of it and chooses for itself, so that the choice is "
        "part of what verdicts are about; or settings are chosen once for all seeds, by so many trainings of "
        "each combination, none with a seed of the verdict.",
    )
    extend: int = Field(
        default=2,
        ge=0,
        description="How often an arm that chooses the smallest or the largest of several numbers may try "
        "one more, in the same ratio or, of numbers that are not positive, at the same distance.",
    )

    @property
    def by_seed(self) -> bool:
        """Whether every seed of the study chooses for itself."""
        return self.seeds == "each"

    def choosing(self, seeds: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns, for the seeds of a verdict, the seeds of each choice of settings."""
        if self.seeds == "each":
            return [(seed,) for seed in seeds]
        return [tuple(range(TUNING_SEED, TUNING_SEED + self.seeds))]


class Screening(Settings):
    """How the arms that are compared are chosen from many."""

    seeds: int = Field(
        default=3, ge=2, le=100, description="Trainings of every arm; none has a seed of the verdict."
    )
    rate: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="Share of arms that do not differ among those that go on, in expectation and at most.",
    )


class Looks(Settings):
    """Seeds that are trained in steps, until a comparison is decided."""

    looks: list[Annotated[int, Field(ge=2, lt=TUNING_SEED)]] = Field(
        min_length=1,
        description="Numbers of seeds, rising, after each of which the arms are compared; one that is "
        "decided is trained with no further seed. The error rates hold for all looks together.",
    )

    @field_validator("looks")
    @classmethod
    def _rising(cls, looks: list[int]) -> list[int]:
        if sorted(set(looks)) != looks:
            raise ValueError(f"expected rising numbers of seeds, found {looks}")
        return looks


class Start(Settings):
    """The task whose training an arm and seed continue."""

    task: str = Field(description="The name of an earlier task of the study.")
    parts: list[str] = Field(
        min_length=1, description="Parts of the model that are taken from there, as by `initialize_from`."
    )


class StudyTask(Settings):
    """One of several tasks."""

    task: str | dict[str, Any] = Field(
        description="A task's name, a file, relative to this one, or the settings of a task."
    )
    changes: dict[str, Any] = Field(
        default={}, alias="set", description="Settings of this task for all arms, by dotted keys."
    )
    metric: str | None = Field(
        default=None, description="Its primary metric; by default that of the study, or the task's first one."
    )
    split: str | None = Field(default=None, description="The split of its verdicts; by default the study's.")
    start: Start | None = Field(
        default=None,
        alias="from",
        description="Each arm and seed starts with parameters of its own training of an earlier task.",
    )


class SizeLadder(Settings):
    """Sizes derived from one number, the number of layers, by a rule.

    The width is `width_per_layer` times the layers, with heads of `head_width`, and feed-forward layers of
    four times the width. Parameters without embeddings count as 12 layers width^2: Kaplan et al. (2020),
    section 2.1, https://arxiv.org/abs/2001.08361.
    """

    layers: list[Annotated[int, Field(gt=0)]] = Field(
        min_length=2, description="Numbers of layers, a scale for each."
    )
    width_per_layer: int = Field(default=64, gt=0, description="The width over the number of layers.")
    head_width: int = Field(default=64, gt=0, description="The width of an attention head.")
    tokens_per_parameter: float | None = Field(
        default=None,
        gt=0,
        description="Tokens that are trained on for each parameter; if null, updates are the task's.",
    )
    batch_tokens: int = Field(default=2048, gt=0, description="Tokens of an update.")

    @property
    def scales(self) -> dict[str, dict[str, Any]]:
        """The settings of each scale."""
        scales = {}
        for layers in self.layers:
            width = self.width_per_layer * layers
            settings: dict[str, Any] = {
                "model.layers": layers,
                "model.width": width,
                "model.heads": max(1, width // self.head_width),
                "model.ffn_width": 4 * width,
            }
            if self.tokens_per_parameter is not None:
                tokens = self.tokens_per_parameter * 12 * layers * width**2
                settings |= {
                    "training.batch_tokens": self.batch_tokens,
                    "training.steps": ceil(tokens / self.batch_tokens),
                }
            scales[f"{layers} layer{'s' * (layers > 1)}"] = settings
        return scales


class Study(Settings):
    """A whole study; one that was read from a tree can locate everything in it."""

    study: str = Field(default="", description="Its title.")
    preset: str | None = Field(
        default=None, description="A protocol whose keys this study has as well; its own ones override them."
    )
    task: str | dict[str, Any] | None = Field(
        default=None, description="A task's name, a file, relative to this one, or the settings of a task."
    )
    tasks: dict[str, StudyTask] = Field(
        default={},
        description="In place of `task`: several by name, each as for `task` or with keys of its own. Every "
        "arm is trained on every task with the same seeds, and has a verdict on each and one over all.",
    )
    registry: str | list[str] | None = Field(
        default=None, description="Local manifests, one or a list, relative to this file."
    )
    changes: dict[str, Any] = Field(
        default={}, alias="set", description="Settings of all arms on top of the task, by dotted keys."
    )
    factors: dict[str, Factor] = Field(default={}, description="What is compared, by a name for each.")
    arms: dict[str, dict[str, Any]] = Field(
        default={},
        description="In place of factors: the settings of each arm, as in a task file; the first is the "
        "baseline.",
    )
    scales: dict[str, dict[str, Any]] = Field(
        default={},
        description="Sizes by name, each with settings as in a task file: every arm is trained at every "
        "scale, and arms are matched, tuned and compared within a scale.",
    )
    ladder: SizeLadder | None = Field(
        default=None, description="In place of `scales`: sizes that follow from numbers of layers by a rule."
    )
    design: Literal["one-factor", "grid"] = Field(
        default="one-factor",
        description="Change one factor of the baseline at a time, or combine all values of all.",
    )
    seeds: Annotated[int, Field(ge=1, lt=TUNING_SEED)] | list[Seed] | Looks = Field(
        default=5,
        description="Trainings of each arm: a number, from seed 1 on, a list of seeds, or "
        "`{looks: [3, 5, 8]}`, which trains 3 seeds and then more of the arms that are undecided.",
    )
    smallest_effect: Effect | None = Field(
        default=None,
        description="The smallest difference of the primary metric that matters, declared beforehand: a "
        "number, or a share of the baseline's mean such as 0.5 %. Arms that surely differ by less are "
        "equivalent.",
    )
    match: Literal["none", "parameters", "flops", "tokens", "operations", "time"] = Field(
        default="none",
        description="Quantity that all arms share: feed-forward widths are solved for equal parameters or "
        "forward FLOPs per token, numbers of updates for equal tokens, operations or time of a training.",
    )
    metric: str | None = Field(
        default=None, description="Primary metric, declared beforehand; by default the task's first metric."
    )
    metrics: list[str] = Field(
        default=[],
        description="Further metrics whose differences have intervals, corrected among themselves; only the "
        "primary one decides.",
    )
    split: str | None = Field(
        default=None,
        description="Split of the final comparison; by default the first test split, or validation if there "
        "is none.",
    )
    tune: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default={},
        description="Settings that are chosen for each arm on validation, by dotted keys: the values to try, "
        "or `{from: LOW, to: HIGH, points: N}`, numbers in equal ratios.",
    )

    @field_validator("seeds")
    @classmethod
    def _unique(cls, seeds: int | list[int] | Looks) -> int | list[int] | Looks:
        if isinstance(seeds, list) and (not seeds or len(set(seeds)) < len(seeds)):
            raise ValueError(f"expected at least one seed, and each once, found {seeds}")
        return seeds

    @property
    def seed_list(self) -> list[int]:
        """The seeds of each arm, at most."""
        most = self.seeds.looks[-1] if isinstance(self.seeds, Looks) else self.seeds
        return most if isinstance(most, list) else list(range(1, most + 1))

    @property
    def looks(self) -> list[int]:
        """After how many seeds the arms are compared."""
        return self.seeds.looks if isinstance(self.seeds, Looks) else [len(self.seed_list)]

    tuning: Tuning = Tuning()
    keep: Keep = Field(
        default="best",
        description="What stays of a training that has its result: `results` and logs alone, also the `best` "
        "weights, or `all`, with checkpoints. Weights that later tasks start from stay in any case.",
    )
    screen: Screening | None = Field(
        default=None,
        description="Of many arms, only those go on that seem to differ from the baseline on validation, and "
        "these alone are compared.",
    )

    _tree: Tree = PrivateAttr()

    def settings_of(self, arm: str) -> dict[str, Any]:
        """Returns the settings of one of `arms`."""
        return {key: value for key, value in self.arms[arm].items() if key != "tune"}

    def tune_of(self, arm: str) -> dict[str, Place]:
        """Returns the paths that are tuned for an arm, with the place of their values."""
        own = self.arms.get(arm, {}).get("tune", {})
        return {path: ("tune", path) for path in self.tune} | {
            path: ("arms", arm, "tune", path) for path in own
        }

    @property
    def tunes(self) -> bool:
        """Whether anything is tuned."""
        return bool(self.tune) or any("tune" in settings for settings in self.arms.values())

    @property
    def tunes_by_seed(self) -> bool:
        """Whether every seed chooses settings for itself."""
        return self.tunes and self.tuning.by_seed

    @property
    def title(self) -> str:
        """The title, or the task and what is compared."""
        return self.study or f"{self.task_name}: {', '.join(self.factors or self.arms)}"

    @property
    def default_folder(self) -> Path:
        """Where its results are by default: always the same, so that it resumes there."""
        return Path("studies", re.sub(r"[^\w.-]+", "-", self.title))

    @property
    def task_name(self) -> str:
        """The task's name, or that of its file; "task" for settings; those of several tasks."""
        if self.tasks:
            return ", ".join(self.tasks)
        return short_name(self.task) if isinstance(self.task, str) else "task"

    def task_of(self, name: str) -> tuple[Place, StudyTask]:
        """Returns a task of the study, with its place; the name is empty where the study has one alone."""
        if name:
            return ("tasks", name), self.tasks[name]
        return (), StudyTask(task=self.task or {})

    def settings(self, task: str) -> list[tuple[str, Place]]:
        """Returns what `set` changes for all arms of a task, with places, in the order of application.

        A file comes before options, the study before the task, shorter paths and names before others.
        """

        def order(change: tuple[str, Place]) -> tuple[bool, bool, int, bool]:
            path, place = change
            option = self.origin(place).line is None
            return option, place[0] == "tasks", path.count("."), not path.endswith(".name")

        changes: list[tuple[str, Place]] = [(path, ("set", path)) for path in self.changes]
        for path in self.tasks[task].changes if task else ():
            changes.append((path, ("tasks", task, "set", path)))
        return sorted(changes, key=order)

    def task_path(self, name: str) -> str | dict[str, Any]:
        """Returns a task's name, the absolute path of its file, or its settings."""
        place, known = self.task_of(name)
        if isinstance(known.task, str) and is_file(known.task):
            return str(self.tree.folder((*place, "task")) / Path(known.task).expanduser())
        return known.task

    @property
    def tree(self) -> Tree:
        """The study as it was written."""
        return self._tree

    def origin(self, place: Place) -> Origin:
        """Returns where the value at a place was written, or the innermost one around it."""
        return self._tree.origin(place) or Origin("")

    def layer(self, path: str, place: Place) -> Tree:
        """Returns a layer of a task in which a path has the value at a place in the study."""
        return self._tree.at(place).under(setting_keys(path))

    def mistakes(self, findings: Iterable[tuple[Place, str]]) -> ConfigurationError:
        """Returns the error for mistakes at their places in the study."""
        return ConfigurationError(
            "\n".join(
                f"{self.origin(place)}  {'.'.join(map(str, place))}: {message}" for place, message in findings
            )
        )


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
    if tree is None or not {"factors", "arms", "task", "tasks"} & tree.value.keys():
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
    if findings := list(_contradictions(checked)):
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
            if isinstance(value, dict):
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
        name = name if str(path[-1]) in factors else str(path[-1])
        factors.add(name)
        tree = tree.with_value(("factors", name), factor)
    return tree


def replacements(
    study: Study, changes: Iterable[tuple[str, Place]], places: Iterable[tuple[str, Place]]
) -> Iterator[tuple[Place, str]]:
    """Yields which keys of `set`, or of values before it, a factor's value or a tuned setting replaces.

    `changes` are those of `set`; `places` are the places of these values in the study, with their paths.
    """
    before = [*changes]
    for path, place in places:
        for other, earlier in before:
            layers = [study.layer(other, earlier), study.layer(path, place)]
            kept = list(_leaves(merge_layers(layers).value))
            for leaf in _leaves(layers[0].value):
                if not any(_overlap(leaf, key) for key in kept):
                    where = f"{'.'.join(map(str, earlier[:2]))}, {study.origin(earlier[:2])}"
                    yield place[:2], f"{path!r} replaces {leaf!r} of {where}: keep one of them"
        before.append((path, place))


def _contradictions(study: Study) -> Iterator[tuple[Place, str]]:
    """Yields contradictions: too many trainings, settings given twice, or set by the study itself."""
    for name, given in (("scale", study.scales), ("task", study.tasks)):
        if given and name in study.factors:
            yield ("factors", name), f"`{name}s` has this name: give the factor another one"
    if bool(study.task) == bool(study.tasks):
        yield ("task",), "expected either `task` or `tasks`" if study.task else "is missing"
        return
    if study.ladder and study.scales != study.ladder.scales:
        yield ("ladder",), "expected either `scales` or `ladder`"
    yield from _stages(study)
    if bool(study.factors) == bool(study.arms):
        yield (("factors",) if study.factors else ()), "expected either `factors` or `arms`"
        return
    values = [len(factor.values) for factor in study.factors.values()] or [len(study.arms)]
    if values == [1]:
        yield ("arms",), "expected at least two arms"
    arms = prod(values) if study.design == "grid" else 1 + sum(number - 1 for number in values)
    arms *= (len(study.scales) or 1) * (len(study.tasks) or 1)
    tried = prod(map(len, study.tune.values())) if study.tune else 0
    tried = min(tried, study.tuning.trials or tried)
    seeds = study.looks[-1] + (study.screen.seeds if study.screen else 0)
    each = study.tuning.seeds
    if (trainings := arms * (seeds * max(tried, 1) if each == "each" else seeds + tried * each)) > MOST:
        advice = "use fewer values, seeds or settings to try, or write `design: one-factor`"
        yield ("factors",), f"{trainings:,} trainings, expected at most {MOST:,}: {advice}"
        return  # looking further would take long
    yield from _own_tuning(study)
    if study.screen and study.tunes_by_seed:
        message = "with `screen`, settings are chosen once, before it: write `tuning: {seeds: 1}` or more"
        yield ("tuning", "seeds"), message
    tuned: list[tuple[Place, str, str]] = [(("tune", path), path, f"tune {path!r}") for path in study.tune]
    factors = [
        (("factors", name, "path"), factor.path, f"the factor {name!r}")
        for name, factor in study.factors.items()
    ]
    arms_settings = [
        (("arms", name), path, "") for name in study.arms for path in _leaves(study.settings_of(name))
    ]
    scales = [
        (("scales", name), path, "") for name, settings in study.scales.items() for path in _leaves(settings)
    ]
    known: dict[str, str] = {}
    for place, path, owner in (*tuned, *factors, *arms_settings, *scales):
        for other, by in known.items():
            if _overlap(path, other):
                yield place, f"{path!r} is also changed by {by}: let one of them have whole blocks"
        if owner:
            known[path] = owner
        if _within(path, "evaluation") or _within(path, "training.monitor"):
            yield place, f"{path!r} decides how arms are measured, which must be the same for all: use `set`"
        if _within("training.seed", path):
            yield place, f"{path!r} is given by the study: write the seeds under `seeds`"
        solved = _SOLVED.get(study.match, ()) if place[0] != "scales" else ()  # of the baseline at a scale
        if any(_overlap(path, each) for each in solved):
            yield place, f"{path!r} is changed by `match: {study.match}`: write `match: none`"
    sets = {change for task in study.tasks or ("",) for change in study.settings(task)}
    for path, place in sorted(sets, key=str):
        for other, by in known.items():
            if _within(path, other):
                yield place, f"has no effect: {by} gives another value"
        if path == "training.seed":
            yield place, "is given by the study: write the seeds under `seeds`"


def _stages(study: Study) -> Iterator[tuple[Place, str]]:
    """Yields tasks that start from one that does not come before them, and effects without a unit."""
    names = list(study.tasks)
    for number, (name, task) in enumerate(study.tasks.items()):
        if task.start and task.start.task not in names[:number]:
            known = f"known: {', '.join(names[:number])}" if number else "this is the first one"
            yield ("tasks", name, "from", "task"), f"{task.start.task!r} is no task before it; {known}"


def _own_tuning(study: Study) -> Iterator[tuple[Place, str]]:
    """Yields what is wrong with the settings that arms tune for themselves."""
    for name, settings in study.arms.items():
        own = settings.get("tune", {})
        if not isinstance(own, dict) or not all(isinstance(tried, list) and tried for tried in own.values()):
            yield (
                ("arms", name, "tune"),
                "expected settings by dotted keys, each with a list of values to try",
            )
            return
        for path in own:
            if _within(path, "evaluation") or _within(path, "training.monitor"):
                yield ("arms", name, "tune", path), f"{path!r} decides how arms are measured: use `set`"
            if _overlap(path, "training.seed"):
                yield ("arms", name, "tune", path), "the seeds are given by the study"


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _within(path: str, outer: str) -> bool:
    return f"{path}.".startswith(f"{outer}.")


def _overlap(path: str, other: str) -> bool:
    return _within(path, other) or _within(other, path)
