"""What a study says; its values know their places in a file, in a dict or in a command's options."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, field_validator

from plugformer.configuration import Origin, Settings, Tree, is_file, setting_keys, short_name
from plugformer.errors import ConfigurationError
from plugformer_ablation.design.blocks import (
    TUNING_SEED,
    Effect,
    Factor,
    Keep,
    Looks,
    Screening,
    Seed,
    SizeLadder,
    StudyTask,
    Tuning,
)

Place = tuple[str | int, ...]
"""The keys that lead to a value of a study."""


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

    def tune_of(self, arm: str) -> dict[str, Place]:
        """Returns the paths that are tuned for an arm, with the place of their values."""
        places: dict[str, Place] = {path: ("tune", path) for path in self.tune}
        return places | {path: ("arms", arm, "tune", path) for path in self.arms.get(arm, {}).get("tune", {})}

    @property
    def tunes(self) -> bool:
        """Whether anything is tuned."""
        return bool(self.tune) or any("tune" in settings for settings in self.arms.values())

    @property
    def tunes_by_seed(self) -> bool:
        """Whether every seed chooses settings for itself."""
        return self.tunes and self.tuning.seeds == "each"

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
        lines = (f"{self.origin(at)}  {'.'.join(map(str, at))}: {message}" for at, message in findings)
        return ConfigurationError("\n".join(lines))


def flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested mappings as one, with dots in the keys."""
    result: dict[str, Any] = {}
    for key, value in record.items():
        inner = flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
        result |= inner
    return result
