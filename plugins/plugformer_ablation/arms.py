"""The arms of a study, each a task that has been checked; the mistakes of all arms together."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple

import torch
import yaml

from plugformer.configuration import (
    Key,
    MappingNode,
    Node,
    Problem,
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
from plugformer.training import ASSUMED
from plugformer.validation import validate
from plugformer_ablation.study import Study

BASELINE = "baseline"


class Change(NamedTuple):
    """A value that is put somewhere into a task: its label, itself, and the tree that puts it there."""

    label: str
    value: Any
    layer: MappingNode


@dataclass(frozen=True)
class Arm:
    """One configuration that a study compares; where settings are tuned, with one choice of them.

    Attributes:
        name: `baseline`, or the values that are not the baseline's.
        values: A label of each factor's value, by the factor's name.
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
        """What tuning tries in it, short; empty where nothing is tuned."""
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
            "baseline": None if self.name == BASELINE else BASELINE,
            "task": task,
            "notes": list(self.notes),
            "tuned": self.tuned,
        }


def resolve_arms(study: Study, registry: Registry) -> list[Arm]:
    """Returns all arms of a study with each choice of tuned settings, the baseline's first.

    Raises:
        ConfigurationError: An arm cannot be, two arms are the same, or the primary metric is none of the
            task's; everything that is wrong with any arm, with its place.
    """
    common = [_change(study, path, "set", path) for path in _in_order(study)]
    _refuse_cleared(study, common)
    arms: list[Arm] = []
    mistakes: dict[str, str] = {}
    for name, changes in designed(study):
        values = {factor: change.label for factor, change in changes.items()}
        for tuned in tunings(study):
            try:
                resolved = _resolve(study, [*common, *changes.values(), *tuned.values()], registry)
            except ConfigurationError as error:
                for problem in re.split(r"\n(?! )", str(error)):  # hints are indented
                    mistakes.setdefault(problem, name)
                continue
            arms.append(Arm(name, values, {path: each.value for path, each in tuned.items()}, resolved))
    if mistakes:
        raise ConfigurationError(
            "\n".join(
                problem if name == BASELINE else f"{problem}\n  in the arm {name!r}"
                for problem, name in mistakes.items()
            )
        )
    _refuse_twins(arms, study)
    primary_metric(study, arms[0].resolved)
    return arms


def _refuse_cleared(study: Study, common: Sequence[Change]) -> None:
    """Refuses factors and tuned settings that clear what `set` says, such as that of a single stack.

    Raises:
        ConfigurationError: One does; the message has the places of both.
    """
    if not common:
        return
    base, _ = merge_layers(each.layer for each in common)
    settings = dict(zip(_in_order(study), (each.layer for each in common), strict=True))
    settings = {path: layer for path, layer in settings.items() if _holds(base, layer, path)}
    problems = [
        study.problem(
            place,
            f"{path!r} clears {setting!r}, which `set` gives a value at {study.place('set', setting)}",
            "give both in each value of one factor further out, such as model.decoder, or leave one out",
        )
        for place, path, change in _varied(study)
        for setting, layer in settings.items()
        if not _holds(merge_layers([base, change.layer])[0], layer, setting)
    ]
    if problems:
        raise ConfigurationError(report(problems))


def _varied(study: Study) -> Iterator[tuple[tuple[Key, ...], str, Change]]:
    """Yields each value of factors and tuning: its place in the study, its path, and what puts it there."""
    for name, factor in study.factors.items():
        for key in factor.keys:
            change = _change(study, factor.path, "factors", name, "values", key)
            yield ("factors", name, "path"), factor.path, change
    for path, tried in study.tune.items():
        for number in range(len(tried)):
            yield ("tune", path), path, _change(study, path, "tune", path, number)


def _holds(tree: Node, layer: Node, path: str) -> bool:
    """Returns whether a tree has the keys of a layer that says one thing, at a path."""
    for _ in path.split("."):
        if not isinstance(tree, MappingNode) or not isinstance(layer, MappingNode):
            return False
        key = next(iter(layer.items))
        if key not in tree.items:
            return False
        tree, layer = tree.items[key], layer.items[key]
    return True


def _in_order(study: Study) -> list[str]:
    """Returns the keys of `set`, those of options after those of the file, longer ones after shorter ones."""
    return sorted(study.changes, key=lambda path: (study.place("set", path).line is None, path.count(".")))


def primary_metric(study: Study, resolved: Experiment) -> str:
    """Returns the name of the metric that decides.

    Raises:
        ConfigurationError: The task has none, or not the one that the study names.
    """
    known = [metric.score_name for metric in resolved.task.evaluation.metrics]
    if not known:
        message = "the task has no metric that could decide: add `evaluation.metrics: [...]` to `set`"
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


def designed(study: Study) -> list[tuple[str, dict[str, Change]]]:
    """Returns names and changes of the arms; the first is the baseline, which others are compared with."""
    factors = {
        name: [_change(study, factor.path, "factors", name, "values", key) for key in factor.keys]
        for name, factor in study.factors.items()
    }
    baseline = {name: values[0] for name, values in factors.items()}
    if study.design == "grid":
        arms = [dict(zip(factors, chosen, strict=True)) for chosen in product(*factors.values())]
    else:
        others = ({**baseline, name: each} for name, values in factors.items() for each in values[1:])
        arms = [baseline, *others]
    different = (
        [f"{name}={each.label}" for name, each in arm.items() if each is not baseline[name]] for arm in arms
    )
    return [(", ".join(each) or BASELINE, arm) for each, arm in zip(different, arms, strict=True)]


def tunings(study: Study) -> list[dict[str, Change]]:
    """Returns the tuning grid, each point by path; a single empty point if nothing is tuned."""
    values = [
        [_change(study, path, "tune", path, number) for number in range(len(tried))]
        for path, tried in study.tune.items()
    ]
    return [dict(zip(study.tune, each, strict=True)) for each in product(*values)]


def _change(study: Study, path: str, *place: Key) -> Change:
    """Returns what puts the value at a place in the study to a path in a task; a key may be its label."""
    node, key = study.node(*place), place[-1]
    is_factor = place[0] == "factors"
    origin = study.node(*place[:2], "path").origin if is_factor else study.place(*place[:2])
    value = plain(node)
    return Change(key if isinstance(key, str) else label(value), value, nested(path, node, origin))


def _resolve(study: Study, changes: Iterable[Change], registry: Registry) -> Experiment:
    """Returns an arm's task, of which a model has been built where only shapes exist."""
    try:
        merged = resolve_changed(study.task_path, [change.layer for change in changes], registry)
    except RegistryError as error:
        raise _located(error, study, "task") from error
    resolved = validate(merged)
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


def _refuse_twins(arms: Iterable[Arm], study: Study) -> None:
    seen: dict[str, Arm] = {}
    for arm in arms:
        twin = seen.setdefault(dump(arm.resolved.task), arm)
        if twin is not arm:
            place, what = "factors", f"the arms {twin.name!r} and {arm.name!r} are the same task"
            if twin.values is arm.values:
                place, what = "tune", "two of the settings to try are the same"
            raise ConfigurationError(report([study.problem((place,), f"{what}: leave one out")]))
