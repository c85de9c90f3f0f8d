"""The arms of a study: tasks that have been checked, with the mistakes of all arms in one error."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import torch
import yaml

from plugformer.configuration import (
    Key,
    MappingNode,
    Origin,
    Problem,
    ScalarNode,
    Task,
    as_dict,
    dump,
    merge_layers,
    nested,
    plain,
    report,
    resolve_changed,
)
from plugformer.errors import ConfigurationError, PlugformerError, RegistryError, nearest
from plugformer.experiment import Experiment
from plugformer.model import build
from plugformer.registry import Kind, Registry
from plugformer.validation import validate
from plugformer_ablation.study import Study
from plugformer_cli.model_summary import ASSUMED

BASELINE = "baseline"


class Change(NamedTuple):
    """A change of a task: the label of a value, the value, and the tree that sets it."""

    label: str
    value: Any
    layer: MappingNode


@dataclass(frozen=True)
class Arm:
    """One configuration of a study; where settings are tuned, with one choice of them.

    Attributes:
        name: Its name; by default the values that differ from the baseline's.
        baseline: Name of the baseline; None for the baseline itself.
        values: A label of each factor's value, by the factor's name.
        tuned: The settings that tuning tries or has chosen, by path.
        resolved: The task; matching may have changed it.
        hashes: A hash of the content of each split of its data.
        parameters: Number of parameters of its model.
        flops_per_token: Operations of a forward pass over an example of median length, for each of its source
            and target tokens; a multiplication and an addition are two.
        notes: Differences from the baseline besides the factors.
        failure: Why tuning could not choose any settings, or None.
    """

    name: str
    baseline: str | None
    values: dict[str, str]
    tuned: dict[str, Any]
    resolved: Experiment
    hashes: dict[str, str] = field(default_factory=dict)
    parameters: int = 0
    flops_per_token: float = 0.0
    notes: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def tried(self) -> str:
        """The settings that tuning tries, as text; empty if nothing is tuned."""
        return ", ".join(f"{path}={label(value)}" for path, value in self.tuned.items())

    def with_task(self, task: Task, *notes: str) -> "Arm":
        """Returns the same with another task, and with more notes."""
        kept = tuple(note for note in notes if note)
        return replace(self, resolved=self.resolved.with_task(task), notes=(*self.notes, *kept))

    def record(self) -> dict[str, Any]:
        """Returns the arm's record in the results; see `StudyResults`."""
        task = written(self.resolved.task)
        task["training"].pop("seed")
        return {
            "name": self.name,
            "values": self.values,
            "baseline": self.baseline,
            "task": task,
            "notes": list(self.notes),
            "tuned": self.tuned,
        }


def resolve_arms(study: Study, registry: Registry, rows: Mapping[str, Any] | None = None) -> list[Arm]:
    """Returns all arms of a study with each choice of tuned settings, the baseline's first.

    Raises:
        ConfigurationError: The configuration of an arm is wrong, two arms are the same, or the task does not
            have the primary metric; all mistakes of all arms, with their places.
    """
    common = [_change(study, path, "set", path) for path in _in_order(study)]
    arms: list[Arm] = []
    mistakes: dict[str, str] = {}
    designs = designed(study)
    baseline = designs[0][0]
    for name, changes in designs:
        values = {factor: change.label for factor, change in changes.items()}
        for tuned in tunings(study):
            try:
                resolved = _resolve(study, [*common, *changes.values(), *tuned.values()], registry, rows)
            except ConfigurationError as error:
                for problem in re.split(r"\n(?! )", str(error)):  # hints are indented
                    mistakes.setdefault(problem, name)
                continue
            settings = {path: change.value for path, change in tuned.items()}
            arms.append(Arm(name, None if name == baseline else baseline, values, settings, resolved))
    if mistakes:
        raise ConfigurationError(
            "\n".join(
                problem if name == BASELINE else f"{problem}\n  in the arm {name!r}"
                for problem, name in mistakes.items()
            )
        )
    seen: dict[str, Arm] = {}
    for arm in arms:
        twin = seen.setdefault(dump(arm.resolved.task), arm)
        if twin is not arm:
            place, what = "arms" if study.arms else "factors", f"the arms {twin.name!r} and {arm.name!r}"
            if twin.values is arm.values:
                place, what = "tune", "two of the settings to try"
            raise ConfigurationError(
                report([study.problem((place,), f"{what} are the same task: leave one out")])
            )
    primary_metric(study, arms[0].resolved)
    return arms


def _in_order(study: Study) -> list[str]:
    """Returns the keys of `set`: those of options after those of the file, longer after shorter ones."""
    return sorted(study.changes, key=lambda path: (study.place("set", path).line is None, path.count(".")))


def primary_metric(study: Study, resolved: Experiment) -> str:
    """Returns the name of the primary metric.

    Raises:
        ConfigurationError: The task has no metric, or not the one that the study names.
    """
    known = [metric.score_name for metric in resolved.task.evaluation.metrics]
    if not known:
        message = "the task has no metric: add `evaluation.metrics: [...]` to `set`"
        raise ConfigurationError(report([study.problem(("task",), message)]))
    wanted = study.metric or known[0]
    if wanted not in known:
        message, hint = f"unknown metric {wanted!r}{nearest(wanted, known)}", f"known: {', '.join(known)}"
        if any(entry.name == wanted for entry in resolved.registry.entries(Kind.METRIC)):
            message = f"the metric {wanted!r} exists, but is not among the task's"
            hint += f"; add `evaluation.metrics: [..., {wanted}]` to `set`"
        raise ConfigurationError(report([study.problem(("metric",), message, hint)]))
    return wanted


def written(task: Task) -> dict[str, Any]:
    """Returns a task as in its file, without the keys that have no effect on the training."""
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


def designed(study: Study) -> list[tuple[str, dict[str, Change]]]:
    """Returns names and changes of the arms; the first is the baseline, with which others are compared."""
    if study.arms:
        return [(name, {"arm": _arm_change(study, name)}) for name in study.arms]
    factors = {
        name: [_change(study, factor.path, "factors", name, "values", key) for key in factor.keys]
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


def _arm_change(study: Study, name: str) -> Change:
    """Returns the change of an arm under `arms`, whose keys may have dots."""
    node, origin = study.node("arms", name), study.place("arms", name)
    items = node.items.items() if isinstance(node, MappingNode) else ()
    layers = (nested(str(key), item, item.origin) for key, item in items)
    return Change(name, plain(node), merge_layers([MappingNode({}, {}, origin), *layers])[0])


def tunings(study: Study) -> list[dict[str, Change]]:
    """Returns the tuning grid, each point by path; a single empty point if nothing is tuned."""
    values = [
        [_change(study, path, "tune", path, number) for number in range(len(tried))]
        for path, tried in study.tune.items()
    ]
    return [dict(zip(study.tune, changes, strict=True)) for changes in product(*values)]


def _change(study: Study, path: str, *place: Key) -> Change:
    """Returns the change that sets a path of a task to the value at a place in the study."""
    node, key = study.node(*place), place[-1]
    is_factor = place[0] == "factors"
    origin = study.node(*place[:2], "path").origin if is_factor else study.place(*place[:2])
    value = plain(node)
    return Change(key if isinstance(key, str) else label(value), value, nested(path, node, origin))


def _resolve(
    study: Study, changes: Iterable[Change], registry: Registry, rows: Mapping[str, Any] | None
) -> Experiment:
    """Returns an arm's task; its model has been built on the meta device."""
    layers = [change.layer for change in changes]
    if rows is not None:
        origin = Origin("data")
        layers.insert(0, nested("data.name", ScalarNode("memory", origin), origin))
    try:
        merged = resolve_changed(study.task_path, layers, registry)
    except RegistryError as error:
        raise _located(error, study, "task") from error
    resolved = validate(merged, rows)
    try:
        with torch.device("meta"):
            build(resolved.spec, ASSUMED)
    except PlugformerError as error:
        place = resolved.locate(("model",))
        raise Problem(place, ("model",), str(error)).error from error
    return resolved


def _located(error: PlugformerError, document: Study, key: str) -> ConfigurationError:
    message, _, hint = str(error).partition("\n")
    return ConfigurationError(report([document.problem((key,), message, hint)]))
