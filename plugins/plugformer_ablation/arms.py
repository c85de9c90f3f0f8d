"""The arms of a study, each a task that has been checked; the mistakes of all arms together."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import torch
import yaml

from plugformer.configuration import (
    Key,
    Mapping,
    Node,
    Origin,
    ResolvedTask,
    Task,
    as_dict,
    dump,
    nested,
    plain,
    report,
    resolve_changed,
)
from plugformer.errors import ConfigurationError, PlugformerError, RegistryError, nearest
from plugformer.model import assemble
from plugformer.registry import Kind, Registry
from plugformer.training import ASSUMED
from plugformer.validation import validate
from plugformer_ablation.study import Study

BASELINE = "baseline"


@dataclass(frozen=True)
class Change:
    """A value that is put somewhere into a task.

    Attributes:
        path: Dotted keys.
        node: The value, with its place.
        origin: Where the path was written.
        name: What the study calls the value; empty if it does not.
    """

    path: str
    node: Node
    origin: Origin
    name: str = ""

    @property
    def label(self) -> str:
        """The value's name, or the value, short: `gqa(kv_heads=2)`."""
        return self.name or label(plain(self.node))

    def layer(self) -> Mapping:
        """Returns the change as a task's layer."""
        return nested(self.path, self.node, self.origin)


@dataclass(frozen=True)
class Arm:
    """One configuration that a study compares; where settings are tuned, with one choice of them.

    Attributes:
        name: `baseline`, or the values that are not the baseline's.
        changes: One for each factor, by its name.
        tuned: The settings that tuning tries or has chosen, by path.
        resolved: The task; matching may have changed it.
        hashes: A hash of the content of each split of its data.
        parameters: Of its model.
        flops_per_token: Operations of a forward pass over an example of median length, for each of its source
            and target tokens; a multiplication and an addition are two.
        notes: What is not equal to the baseline beside the factors.
        failure: Why tuning could not choose any settings, where that is so.
    """

    name: str
    changes: dict[str, Change]
    tuned: dict[str, Change]
    resolved: ResolvedTask
    hashes: dict[str, str] = field(default_factory=dict)
    parameters: int = 0
    flops_per_token: float = 0.0
    notes: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def tried(self) -> str:
        """What tuning tries in it, short; empty where nothing is tuned."""
        return ", ".join(f"{path}={change.label}" for path, change in self.tuned.items())

    def with_task(self, task: Task, *notes: str) -> "Arm":
        """Returns the same with another task, and with more notes."""
        kept = tuple(note for note in notes if note)
        return replace(self, resolved=replace(self.resolved, task=task), notes=(*self.notes, *kept))

    def record(self) -> dict[str, Any]:
        """Returns the arm's record in the results; see `StudyResults`."""
        task = written(self.resolved.task)
        task["training"].pop("seed")
        return {
            "name": self.name,
            "values": {factor: change.label for factor, change in self.changes.items()},
            "baseline": None if self.name == BASELINE else BASELINE,
            "task": task,
            "notes": list(self.notes),
            "tuned": {path: plain(change.node) for path, change in self.tuned.items()},
        }


def resolve_arms(study: Study, registry: Registry) -> list[Arm]:
    """Returns all arms of a study with each choice of tuned settings, the baseline's first.

    Raises:
        ConfigurationError: An arm cannot be, two arms are the same, or the primary metric is none of the
            task's; everything that is wrong with any arm, with its place.
    """
    common = common_changes(study)
    arms: list[Arm] = []
    mistakes: dict[str, str] = {}
    for (name, changes), tuned in product(designed(study), tunings(study)):
        try:
            resolved = _resolve(study, [*common, *changes.values(), *tuned.values()], registry)
        except ConfigurationError as error:
            for problem in _problems(str(error)):
                mistakes.setdefault(problem, name)
            continue
        arms.append(Arm(name, changes, tuned, resolved))
    if mistakes:
        raise ConfigurationError(
            "\n".join(
                problem if name == BASELINE else f"{problem}\n  in the arm {name!r}"
                for problem, name in mistakes.items()
            )
        )
    _refuse_twins(arms, study)
    _check_metric(arms[0].resolved, study)
    return arms


def designed(study: Study) -> list[tuple[str, dict[str, Change]]]:
    """Returns names and changes of the arms; the first is the baseline, which others are compared with."""
    factors = [
        [
            Change(
                factor.path,
                study.node("factors", name, "values", key),
                study.node("factors", name, "path").origin,
                key if isinstance(key, str) else "",
            )
            for key in factor.keys
        ]
        for name, factor in study.factors.items()
    ]
    baseline = tuple(values[0] for values in factors)
    combinations: Iterable[tuple[Change, ...]] = product(*factors)
    if study.design == "one-factor":
        others = [
            (*baseline[:place], value, *baseline[place + 1 :])
            for place, values in enumerate(factors)
            for value in values[1:]
        ]
        combinations = [baseline, *others]
    arms = []
    for combination in combinations:
        changes = dict(zip(study.factors, combination, strict=True))
        different = [
            f"{name}={change.label}"
            for (name, change), usual in zip(changes.items(), baseline, strict=True)
            if change is not usual
        ]
        arms.append((", ".join(different) or BASELINE, changes))
    return arms


def tunings(study: Study) -> list[dict[str, Change]]:
    """Returns the tuning grid, each point by path; a single empty point if nothing is tuned."""
    values = [
        [_change(study, path, "tune", path, number) for number in range(len(tried))]
        for path, tried in study.tune.items()
    ]
    return [dict(zip(study.tune, each, strict=True)) for each in product(*values)]


def common_changes(study: Study) -> list[Change]:
    """Returns the changes that all arms share, shorter paths first, so that longer ones go into them."""
    changes = [_change(study, path, "set", path) for path in study.changes]
    return sorted(changes, key=lambda change: change.path.count("."))


def primary_metric(study: Study, resolved: ResolvedTask) -> str:
    """Returns the name of the metric that decides."""
    return study.metric or resolved.task.evaluation.metrics[0].score_name


def written(task: Task) -> dict[str, Any]:
    """Returns a task as its file would say it, without what changes nothing."""
    return {key: value for key, value in as_dict(task).items() if key not in ("description", "registry")}


def label(value: Any) -> str:
    """Returns a value in a few characters, as a table shows it."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        options = [f"{key}={label(item)}" for key, item in value.items() if key != "name"]
        return f"{value['name']}({', '.join(options)})" if options else str(value["name"])
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _change(study: Study, path: str, *place: Key) -> Change:
    return Change(path, study.node(*place), study.place(*place[:2]))


def _resolve(study: Study, changes: Iterable[Change], registry: Registry) -> ResolvedTask:
    """Returns an arm's task, of which a model has been built where only shapes exist."""
    try:
        merged = resolve_changed(study.task_path, [change.layer() for change in changes], registry)
    except RegistryError as error:
        message, _, hint = str(error).partition("\n")
        raise ConfigurationError(report([study.problem(("task",), message, hint)])) from error
    resolved = validate(merged)
    try:
        with torch.device("meta"):
            assemble(resolved.task, ASSUMED, resolved.registry)
    except PlugformerError as error:
        message, _, hint = str(error).partition("\n")
        raise ConfigurationError(report([resolved.problem(("model",), message, hint)])) from error
    return resolved


def _refuse_twins(arms: Iterable[Arm], study: Study) -> None:
    seen: dict[str, Arm] = {}
    for arm in arms:
        twin = seen.setdefault(dump(arm.resolved.task), arm)
        if twin is not arm:
            place, what = "factors", f"the arms {twin.name!r} and {arm.name!r} are the same task"
            if twin.changes is arm.changes:
                place, what = "tune", "two of the settings to try are the same"
            raise ConfigurationError(report([study.problem((place,), f"{what}: leave one out")]))


def _check_metric(resolved: ResolvedTask, study: Study) -> None:
    known = [metric.score_name for metric in resolved.task.evaluation.metrics]
    wanted = study.metric
    if not known:
        message = "the task has no metric that could decide: add `evaluation.metrics: [...]` to `set`"
        raise ConfigurationError(report([study.problem(("task",), message)]))
    if wanted is not None and wanted not in known:
        message, hint = f"unknown metric {wanted!r}{nearest(wanted, known)}", f"known: {', '.join(known)}"
        if any(entry.name == wanted for entry in resolved.registry.entries(Kind.METRIC)):
            message = f"the metric {wanted!r} exists, but is not among the task's"
            hint += f"; add `evaluation.metrics: [..., {wanted}]` to `set`"
        raise ConfigurationError(report([study.problem(("metric",), message, hint)]))


def _problems(message: str) -> Iterator[str]:
    """Yields the problems of a message: each begins at the margin, its hints are indented."""
    problem: list[str] = []
    for line in message.splitlines():
        if problem and not line.startswith(" "):
            yield "\n".join(problem)
            problem = []
        problem.append(line)
    yield "\n".join(problem)
