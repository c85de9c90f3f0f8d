"""Every arm of a study as a task that has been checked; the mistakes of all arms together."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from plugformer.configuration import ResolvedTask, dump, report, resolve_changed
from plugformer.errors import ConfigurationError, PlugformerError, RegistryError, nearest
from plugformer.model import assemble
from plugformer.registry import Kind, Registry
from plugformer.training import ASSUMED
from plugformer.validation import validate
from plugformer_ablation.arms import BASELINE, Arm, Change, arms_of, common_changes, tunings_of
from plugformer_ablation.declaration import Declared


@dataclass(frozen=True)
class Variant:
    """An arm with settings that tuning tries; where nothing is tuned, each arm has one variant.

    Attributes:
        arm: The arm.
        tuned: What is tried, by path.
        resolved: The task.
    """

    arm: Arm
    tuned: dict[str, Change]
    resolved: ResolvedTask


@dataclass
class _Mistakes:
    """Messages of several arms; one that several have is kept once, with the first that has it."""

    found: dict[str, str] = field(default_factory=dict)

    def add(self, message: str, arm: str) -> None:
        for block in _blocks(message):
            self.found.setdefault(block, arm)

    def __str__(self) -> str:
        return "\n".join(
            block if arm == BASELINE else f"{block}\n  in the arm {arm!r}"
            for block, arm in self.found.items()
        )


def resolve_variants(declared: Declared, registry: Registry) -> list[Variant]:
    """Returns all variants of all arms, arm by arm.

    Raises:
        ConfigurationError: An arm cannot be, two arms are the same, or the primary metric is none of the
            task's; everything that is wrong with any arm, with its place.
    """
    common = common_changes(declared)
    variants, mistakes = [], _Mistakes()
    for arm in arms_of(declared):
        for tuned in tunings_of(declared):
            changes = [*common, *arm.changes.values(), *tuned.values()]
            try:
                resolved = _resolve(declared, changes, registry)
            except ConfigurationError as error:
                mistakes.add(str(error), arm.name)
                continue
            variants.append(Variant(arm, tuned, resolved))
    if mistakes.found:
        raise ConfigurationError(str(mistakes))
    _refuse_twins(variants, declared)
    _check_metric(variants[0].resolved, declared)
    return variants


def primary_metric(declared: Declared, resolved: ResolvedTask) -> str:
    """Returns the name of the metric that decides."""
    return declared.study.metric or resolved.task.evaluation.metrics[0].score_name


def _resolve(declared: Declared, changes: Iterable[Change], registry: Registry) -> ResolvedTask:
    """Returns an arm's task, of which a model has been built where only shapes exist."""
    try:
        merged = resolve_changed(declared.task, [change.layer() for change in changes], registry)
    except RegistryError as error:
        message, _, hint = str(error).partition("\n")
        raise ConfigurationError(report([declared.problem(("task",), message, hint)])) from error
    resolved = validate(merged)
    try:
        with torch.device("meta"):
            assemble(resolved.task, ASSUMED, resolved.registry)
    except PlugformerError as error:
        message, _, hint = str(error).partition("\n")
        raise ConfigurationError(report([resolved.problem(("model",), message, hint)])) from error
    return resolved


def _refuse_twins(variants: Iterable[Variant], declared: Declared) -> None:
    seen: dict[str, Variant] = {}
    for variant in variants:
        twin = seen.setdefault(dump(variant.resolved.task), variant)
        if twin is not variant:
            place = ("factors",) if twin.arm is not variant.arm else ("tune",)
            what = f"the arms {twin.arm.name!r} and {variant.arm.name!r} are the same task"
            if twin.arm is variant.arm:
                what = "two of the settings to try are the same"
            raise ConfigurationError(report([declared.problem(place, f"{what}: leave one out")]))


def _check_metric(resolved: ResolvedTask, declared: Declared) -> None:
    known = [metric.score_name for metric in resolved.task.evaluation.metrics]
    wanted = declared.study.metric
    if not known:
        message = "the task has no metric that could decide: add `evaluation.metrics: [...]` to `set`"
        raise ConfigurationError(report([declared.problem(("task",), message)]))
    if wanted is not None and wanted not in known:
        message, hint = f"unknown metric {wanted!r}{nearest(wanted, known)}", f"known: {', '.join(known)}"
        if any(entry.name == wanted for entry in resolved.registry.entries(Kind.METRIC)):
            message = f"the metric {wanted!r} exists, but is not among the task's"
            hint += f"; add `evaluation.metrics: [..., {wanted}]` to `set`"
        raise ConfigurationError(report([declared.problem(("metric",), message, hint)]))


def _blocks(message: str) -> list[str]:
    """Returns the problems of a message: each begins at the margin, its hints are indented."""
    blocks: list[str] = []
    for line in message.splitlines():
        if blocks and line.startswith(" "):
            blocks[-1] += f"\n{line}"
        else:
            blocks.append(line)
    return blocks
