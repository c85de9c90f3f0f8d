"""The arms of a study: tasks that have been checked, with the mistakes of all arms in one error."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from typing import Any, NamedTuple

import yaml

from plugformer.configuration import Task, Tree, dump, resolve, with_manifest
from plugformer.errors import ConfigurationError, nearest
from plugformer.experiment import Experiment
from plugformer.registry import Registry
from plugformer.validation import validate
from plugformer_ablation.design.blocks import Keep
from plugformer_ablation.design.contradictions import replacements
from plugformer_ablation.design.study import Place, Study

BASELINE = "baseline"

TASK, SCALE = "task", "scale"
"""The names of a study's task and of a scale among the values of an arm: its context."""

EMBEDDING = "embedding"
"""The part of a model that belongs to a vocabulary: whoever starts from it has the same tokenizers."""


RECORDED = (
    "values",
    "baseline",
    "metric",
    "split",
    "start",
    "parts",
    "test_set",
    "made_of",
    "tuned",
    "edges",
)
"""What records of an arm have in results and in reports, besides its task and what that costs."""


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
        metric: The primary metric of its task.
        split: The split that the metric decides on.
        test_set: A hash of the baseline's examples there.
        made_of: A hash of its training data, and of the components that are not Plugformer's.
        start: The arm of an earlier task that each seed starts from, or None, and the `parts` it takes.
        edges: Which tuned numbers are the smallest or the largest of those tried, by path.
        failure: Why tuning could not choose any settings, or None.
        keep: What stays of its trainings; at least the weights, if others start from them.
        choices: By seed, the arm with the settings that it has chosen; empty if all have the same.
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
    metric: str = ""
    split: str = ""
    test_set: str = ""
    made_of: str = ""
    start: str | None = None
    parts: tuple[str, ...] = ()
    edges: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None
    keep: Keep = "best"
    choices: Mapping[int, "Arm"] = field(default_factory=dict)

    @property
    def usual(self) -> "Arm":
        """The choice of most of its seeds, or itself."""
        counts = Counter(arm.tried for arm in self.choices.values())
        return max(self.choices.values(), key=lambda arm: counts[arm.tried], default=self)

    @property
    def tried(self) -> str:
        """The settings that tuning tries, as text; empty if nothing is tuned."""
        return ", ".join(f"{path}={label(value)}" for path, value in self.tuned.items())

    def with_task(self, task: Task, *notes: str) -> "Arm":
        """Returns the same with another task, and with more notes."""
        return replace(self, resolved=self.resolved.with_task(task), notes=(*self.notes, *notes))

    def with_steps(self, steps: int, *notes: str) -> "Arm":
        """Returns the same with another number of updates, as often evaluated, and with more notes."""
        training = self.resolved.task.training
        every = training.evaluate_every
        if every is not None and training.steps:
            every = max(1, round(every * steps / training.steps))
        changed = training.model_copy(update={"steps": steps, "evaluate_every": every})
        return self.with_task(self.resolved.task.model_copy(update={"training": changed}), *notes)

    def record(self) -> dict[str, Any]:
        """Returns the arm's record in the results; see `StudyResults`."""
        task = written(self.resolved.task)
        task["training"].pop("seed")
        kept = {name: getattr(self, name) for name in ("name", *RECORDED)} | {"parts": [*self.parts]}
        cost = {**self.usual.counted, "update": self.cost}
        choices: dict[str, dict[str, Any]] = {}
        for seed, arm in self.choices.items():
            choice = {"task": arm.record()["task"], "tuned": arm.tuned, "cost": arm.counted, "ends": {}}
            choice = choices.setdefault(arm.tried, {"seeds": [], **choice})
            choice["seeds"].append(seed)
            choice["ends"] |= {str(seed): arm.edges} if arm.edges else {}
        more = {"choices": list(choices.values())}
        return {**kept, "task": task, "notes": list(self.notes), "cost": cost, **more}


def resolve_arms(study: Study, registry: Registry, rows: Mapping[str, Any] | None = None) -> list[Arm]:
    """Returns all arms of a study with each choice of tuned settings, the baseline's first.

    Raises:
        ConfigurationError: The configuration of an arm is wrong, two arms are the same, or the task does not
            have the primary metric; all mistakes of all arms, with their places.
    """
    if study.tasks and rows is not None:
        raise study.mistakes([(("tasks",), "rows in memory belong to one task: write `task`")])
    registry = with_manifest(study.tree, registry)[1]
    arms: dict[str, Arm] = {}
    mistakes: dict[str, str] = {}
    for name, baseline, changes in designed(study):
        values = {factor: change.label for factor, change in changes.items()}
        task = values.get(TASK, "")
        start = study.task_of(task)[1].start
        for tuned in tunings(study, values.get("arm", "")):
            for problem in _replaced(study, task, changes, tuned):
                mistakes.setdefault(problem, name)
            layers = [study.layer(*each) for each in study.settings(task)]
            layers += [layer for change in (*changes.values(), *tuned.values()) for layer in change.layers]
            try:
                known = resolve(study.task_path(task), layers, registry, in_memory=rows is not None)
                resolved = validate(known, rows)
            except ConfigurationError as error:
                for problem in re.split(r"\n(?! )", str(error)):  # hints are indented
                    mistakes.setdefault(problem, name)
                continue
            arm = Arm(
                name,
                baseline,
                values,
                tuned={path: change.value for path, change in tuned.items()},
                resolved=resolved,
                metric=primary_metric(study, task, resolved),
                start=context_name({**values, TASK: start.task}, plain_name(name, values)) if start else None,
                parts=tuple(start.parts) if start else (),
            )
            twin = arms.setdefault(f"{task} {dump(resolved.task)}", arm)
            if twin is not arm and not mistakes:
                raise _twins(study, twin, arm)
    if mistakes:
        told = (
            problem if name.endswith(BASELINE) else f"{problem}\n  in the arm {name!r}"
            for problem, name in mistakes.items()
        )
        raise ConfigurationError("\n".join(told))
    _check_metrics(study, list(arms.values()))
    starts = {arm.start for arm in arms.values()} if study.keep == "results" else set()
    return [replace(arm, keep="best" if arm.name in starts else study.keep) for arm in arms.values()]


def _replaced(
    study: Study, task: str, changes: Mapping[str, Change], tuned: Mapping[str, Change]
) -> Iterator[str]:
    """Yields what is wrong where a factor or a tuned setting replaces other keys of a task."""
    of_factors = [
        (study.factors[name].path, change) for name, change in changes.items() if name in study.factors
    ]
    places = [(path, change.place) for path, change in (*of_factors, *tuned.items())]
    for problem in replacements(study, study.settings(task), places):
        yield str(study.mistakes([problem]))


def _twins(study: Study, twin: Arm, arm: Arm) -> ConfigurationError:
    """Returns the error for two arms that are the same task."""
    place, what = "arms" if study.arms else "factors", f"the arms {twin.name!r} and {arm.name!r}"
    if twin.name == arm.name:
        place, what = "tune", "two of the settings to try"
    elif twin.values.get(SCALE) != arm.values.get(SCALE):
        place = "scales"
    return study.mistakes([((place,), f"{what} are the same task: leave one out")])


def primary_metric(study: Study, task: str, resolved: Experiment) -> str:
    """Returns the name of the primary metric of a task of the study.

    Raises:
        ConfigurationError: The task has no metric, or not one that the study names.
    """
    place, settings = study.task_of(task)
    known = _metrics(resolved)
    if not known:
        message = "the task has no metric: add `evaluation.metrics: [...]` to `set`"
        raise study.mistakes([((*place, "task"), message)])
    primary = settings.metric or study.metric or known[0]
    if primary not in known:
        place = (*place, "metric") if settings.metric else ("metric",)
        raise study.mistakes([(place, f"the task has no {_unknown_metric(primary, known)}")])
    return primary


def _metrics(resolved: Experiment) -> list[str]:
    """Returns the names of a task's metrics."""
    return [metric.score_name for metric in resolved.task.evaluation.metrics]


def _check_metrics(study: Study, arms: Sequence[Arm]) -> None:
    """Refuses further metrics that no task has, and an effect without a unit."""
    if isinstance(study.smallest_effect, float) and len({arm.metric for arm in arms}) > 1:
        message = "a number has no unit over tasks with different metrics: write a share such as `0.5 %`"
        raise study.mistakes([(("smallest_effect",), message)])
    known = list(dict.fromkeys(name for arm in arms for name in _metrics(arm.resolved)))
    unknown = [
        (("metrics", number), f"no task has the {_unknown_metric(name, known)}")
        for number, name in enumerate(study.metrics)
        if name not in known
    ]
    if unknown:
        raise study.mistakes(unknown)


def _unknown_metric(wanted: str, known: Sequence[str]) -> str:
    """Returns a metric that a task does not have, in words, and what to do."""
    advice = "add it to `evaluation.metrics` in `set`"
    if wanted == "loss":
        advice = "the validation loss is always reported; a verdict needs a metric, for texts `perplexity`"
    return f"metric {wanted!r}{nearest(wanted, known)}, but {', '.join(known)}\n  {advice}"


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
    """Yields name, baseline and changes of each arm, context by context; the first of one is its baseline."""
    (baseline, _), *_ = arms = _designed(study)
    for task, scale in product(study.tasks or ("",), study.scales or ("",)):
        context = {TASK: Change(task, task, ("tasks", task), [])} if task else {}
        context |= {SCALE: _settings_change(study, "scales", scale)} if scale else {}
        labels = {key: change.label for key, change in context.items()}
        for name, changes in arms:
            known = None if name == baseline else context_name(labels, baseline)
            yield context_name(labels, name), known, {**context, **changes}


def context_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the task and the scale of an arm, as far as its study has several."""
    return tuple(values[key] for key in (TASK, SCALE) if values.get(key))


def context_name(values: Mapping[str, str], name: str) -> str:
    """Returns the name of an arm in the context that its values state."""
    return ": ".join(filter(None, [", ".join(context_of(values)), name]))


def plain_name(name: str, values: Mapping[str, str]) -> str:
    """Returns an arm's name without its context."""
    return name.removeprefix(context_name(values, "x")[:-1])


def by_context(arms: Sequence[Arm]) -> list[list[Arm]]:
    """Returns the arms of each task and scale, which are compared with each other, the baseline first."""
    return [list(group) for _, group in groupby(arms, key=lambda arm: context_of(arm.values))]


def by_stage(arms: Sequence[Arm]) -> list[list[Arm]]:
    """Returns the arms that start from no other one, then those that start from these, and so on."""
    depths: dict[str, int] = {}
    for arm in arms:
        depths[arm.name] = 0 if arm.start is None else 1 + depths[arm.start]
    stages = range(1 + max(depths.values(), default=0))
    return [[arm for arm in arms if depths[arm.name] == stage] for stage in stages]


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

    By coordinates these are the first values of all settings, and those with another value of one of them.
    With a number of trials, so many points of the grid: Bergstra and Bengio (2012), section 2,
    https://jmlr.org/papers/v13/bergstra12a.html.
    """
    places = study.tune_of(arm)
    values = {
        path: [_change(study, path, (*place, number)) for number in range(len(study.tree.get(place)))]
        for path, place in places.items()
    }
    if study.tuning.strategy == "coordinate":
        first = {path: changes[0] for path, changes in values.items()}
        return [first, *({**first, path: change} for path in values for change in values[path][1:])]
    points = [dict(zip(places, changes, strict=True)) for changes in product(*values.values())]
    if (most := study.tuning.trials) is not None and len(points) > most:
        chosen = random.Random(0).sample(range(len(points)), most)  # noqa: S311 (not secret)
        points = [points[number] for number in sorted(chosen)]
    return points


def _change(study: Study, path: str, place: Place) -> Change:
    """Returns the change that sets a path of a task to the value at a place in the study."""
    value, key = study.tree.get(place), place[-1]
    name = key if isinstance(key, str) else label(value)
    return Change(name, value, place, [study.layer(path, place)])
