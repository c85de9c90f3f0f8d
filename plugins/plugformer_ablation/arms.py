"""The arms of a study: tasks that have been checked, with the mistakes of all arms in one error."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any, NamedTuple

import yaml

from plugformer.configuration import Task, Tree, dump, resolve, with_manifest
from plugformer.errors import ConfigurationError, nearest
from plugformer.experiment import Experiment
from plugformer.registry import Kind, Registry
from plugformer.validation import fitting, measures, validate
from plugformer_ablation.study import Place, Study, replacements

BASELINE = "baseline"

SCALE = "scale"
"""The name of a scale among the values of an arm."""


class Change(NamedTuple):
    """A change of a task: the label of a value, the value, its place in the study, and layers that set it."""

    label: str
    value: Any
    place: Place
    layers: list[Tree]


@dataclass(frozen=True)
class Arm:
    """One configuration of a study; where settings are tuned, with one choice of them.

    Attributes:
        name: By default the values that differ from the baseline's.
        baseline: Name of the baseline; None for the baseline itself.
        values: A label of each factor's value, by the factor's name.
        tuned: The settings that tuning tries or has chosen, by path.
        resolved: The task; matching may have changed it.
        hashes: A hash of the content of each split of its data.
        counted: The number of `parameters`; of a forward pass over an example of median length, for each of
            its source and target tokens, `flops`, those of matrix products, of which a multiplication and an
            addition are two, and `elements`, the numbers that all other operators write.
        cost: What an update costs relative to the baseline's; see `relative_cost`. None if not measured.
        notes: Differences from the baseline besides the factors.
        edges: Which tuned numbers are the smallest or the largest of those tried, by path.
        failure: Why tuning could not choose any settings, or None.
    """

    name: str
    baseline: str | None
    values: dict[str, str]
    tuned: dict[str, Any]
    resolved: Experiment
    hashes: dict[str, str] = field(default_factory=dict)
    counted: dict[str, float] = field(default_factory=dict)
    cost: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    edges: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None

    @property
    def tried(self) -> str:
        """The settings that tuning tries, as text; empty if nothing is tuned."""
        return ", ".join(f"{path}={label(value)}" for path, value in self.tuned.items())

    def with_task(self, task: Task, *notes: str) -> "Arm":
        """Returns the same with another task, and with more notes."""
        return replace(self, resolved=self.resolved.with_task(task), notes=(*self.notes, *notes))

    def record(self) -> dict[str, Any]:
        """Returns the arm's record in the results; see `StudyResults`."""
        task = written(self.resolved.task)
        task["training"].pop("seed")
        kept = {name: getattr(self, name) for name in ("name", "values", "baseline", "tuned", "edges")}
        cost = {**self.counted, "update": self.cost}
        return {**kept, "task": task, "notes": list(self.notes), "cost": cost}


def resolve_arms(study: Study, registry: Registry, rows: Mapping[str, Any] | None = None) -> list[Arm]:
    """Returns all arms of a study with each choice of tuned settings, the baseline's first.

    Raises:
        ConfigurationError: The configuration of an arm is wrong, two arms are the same, or the task does not
            have the primary metric; all mistakes of all arms, with their places.
    """

    def order(path: str) -> tuple[bool, int, bool]:  # what the file says before options, shorter paths, names
        return study.origin(("set", path)).line is None, path.count("."), not path.endswith(".name")

    registry = with_manifest(study.tree, registry)[1]
    common = [study.layer(path, ("set", path)) for path in sorted(study.changes, key=order)]
    arms: dict[str, Arm] = {}
    mistakes: dict[str, str] = {}
    for name, baseline, changes in designed(study):
        values = {factor: change.label for factor, change in changes.items()}
        paths = {factor: study.factors[factor].path for factor in changes if factor in study.factors}
        for tuned in tunings(study, values.get("arm", "")):
            places = [(path, changes[factor].place) for factor, path in paths.items()]
            places += [(path, change.place) for path, change in tuned.items()]
            for where, message in replacements(study, places):
                mistakes.setdefault(str(study.mistakes([(where, message)])), name)
            layers = [layer for change in (*changes.values(), *tuned.values()) for layer in change.layers]
            try:
                in_memory = rows is not None
                task = resolve(study.task_path, [*common, *layers], registry, in_memory=in_memory)
                resolved = validate(task, rows)
            except ConfigurationError as error:
                for problem in re.split(r"\n(?! )", str(error)):  # hints are indented
                    mistakes.setdefault(problem, name)
                continue
            settings = {path: change.value for path, change in tuned.items()}
            arm = Arm(name, baseline, values, settings, resolved)
            twin = arms.setdefault(dump(resolved.task), arm)
            if twin is not arm and not mistakes:
                place, what = "arms" if study.arms else "factors", f"the arms {twin.name!r} and {name!r}"
                if twin.name == name:
                    place, what = "tune", "two of the settings to try"
                elif twin.values.get(SCALE) != values.get(SCALE):
                    place = "scales"
                raise study.mistakes([((place,), f"{what} are the same task: leave one out")])
    if mistakes:
        raise ConfigurationError(
            "\n".join(
                problem if name.endswith(BASELINE) else f"{problem}\n  in the arm {name!r}"
                for problem, name in mistakes.items()
            )
        )
    resolved_arms = list(arms.values())
    primary_metric(study, resolved_arms[0].resolved)
    return resolved_arms


def primary_metric(study: Study, resolved: Experiment) -> str:
    """Returns the name of the primary metric.

    Raises:
        ConfigurationError: The task has no metric, or not the one that the study names.
    """
    known = [metric.score_name for metric in resolved.task.evaluation.metrics]
    if not known:
        message = "the task has no metric: add `evaluation.metrics: [...]` to `set`"
        raise study.mistakes([(("task",), message)])
    wanted = study.metric or known[0]
    if wanted not in known:
        task_type = resolved.task_type
        fits = fitting(resolved.registry, Kind.METRIC, lambda metric: measures(metric, task_type))
        others = sorted({*fits} - {*known})
        guess = nearest(wanted, [*known, *others])
        advice = f"others that fit it: {', '.join(others)}; add one to `evaluation.metrics` in `set`"
        if wanted in others:
            guess, advice = "", f"add `evaluation.metrics: [..., {wanted}]` to `set`"
        elif wanted == "loss":
            advice = (
                "the validation loss is always reported; a verdict needs a metric, for texts `perplexity`"
            )
        message = f"the task has no metric {wanted!r}{guess}, but {', '.join(known)}"
        raise study.mistakes([(("metric",), f"{message}\n  {advice}")])
    return wanted


def written(task: Task) -> dict[str, Any]:
    """Returns a task as in its file, without the keys that have no effect on the training."""
    content = yaml.safe_load(dump(task))
    return {key: value for key, value in content.items() if key not in ("description", "registry")}


def label(value: Any) -> str:
    """Returns a value in a few characters, as a table shows it."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        options = [f"{key}={label(item)}" for key, item in value.items() if key != "name"]
        return f"{value['name']}({', '.join(options)})" if options else str(value["name"])
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def designed(study: Study) -> Iterator[tuple[str, str | None, dict[str, Change]]]:
    """Yields name, baseline and changes of each arm, scale by scale; the first of a scale is its baseline."""
    (baseline, _), *_ = arms = _designed(study)
    if not study.scales:
        for name, changes in arms:
            yield name, None if name == baseline else baseline, changes
    for scale in study.scales:
        change = _settings_change(study, "scales", scale)
        for name, changes in arms:
            known = None if name == baseline else f"{scale}: {baseline}"
            yield f"{scale}: {name}", known, {SCALE: change, **changes}


def by_scale(arms: Sequence[Arm]) -> list[list[Arm]]:
    """Returns the arms of each scale, which are compared with each other, the baseline first."""
    return [list(group) for _, group in groupby(arms, key=lambda arm: arm.values.get(SCALE))]


def _designed(study: Study) -> list[tuple[str, dict[str, Change]]]:
    """Returns names and changes of the arms of a scale; the first is the baseline."""
    if study.arms:
        return [(name, {"arm": _settings_change(study, "arms", name)}) for name in study.arms]
    factors = {
        name: [
            _change(study, factor.path, ("factors", name, "values", key))
            for key in (range(len(factor.values)) if isinstance(factor.values, list) else factor.values)
        ]
        for name, factor in study.factors.items()
    }
    baseline = {name: values[0] for name, values in factors.items()}
    if study.design == "grid":
        arms = [dict(zip(factors, values, strict=True)) for values in product(*factors.values())]
    else:
        others = ({**baseline, name: value} for name, values in factors.items() for value in values[1:])
        arms = [baseline, *others]
    different = (
        [f"{name}={value.label}" for name, value in arm.items() if value is not baseline[name]]
        for arm in arms
    )
    return [(", ".join(values) or BASELINE, arm) for values, arm in zip(different, arms, strict=True)]


def _settings_change(study: Study, key: str, name: str) -> Change:
    """Returns the change of an arm or a scale, whose keys may have dots."""
    place = (key, name)
    settings = study.tree.get(place)
    keys = [key for key in settings if (*place, key) != ("arms", name, "tune")]
    return Change(name, settings, place, [study.layer(str(key), (*place, key)) for key in keys])


def tunings(study: Study, arm: str = "") -> list[dict[str, Change]]:
    """Returns what an arm tries, each point by path; a single empty point if nothing is tuned.

    With a number of trials, so many points of the grid: Bergstra and Bengio (2012), section 2,
    https://jmlr.org/papers/v13/bergstra12a.html.
    """
    places = study.tune_of(arm)
    values = [
        [_change(study, path, (*place, number)) for number in range(len(study.tree.get(place)))]
        for path, place in places.items()
    ]
    points = [dict(zip(places, changes, strict=True)) for changes in product(*values)]
    if (most := study.tuning.trials) is not None and len(points) > most:
        chosen = random.Random(0).sample(range(len(points)), most)  # noqa: S311 (not secret)
        points = [points[number] for number in sorted(chosen)]
    return points


def _change(study: Study, path: str, place: Place) -> Change:
    """Returns the change that sets a path of a task to the value at a place in the study."""
    value, key = study.tree.get(place), place[-1]
    name = key if isinstance(key, str) else label(value)
    return Change(name, value, place, [study.layer(path, place)])
