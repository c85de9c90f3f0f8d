"""Making arms comparable: they have the same evaluation data, and equal costs if the study asks for it."""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby

import torch

from plugformer.configuration import Component, Task, TrainingSettings
from plugformer.data import SplitStats, prepare
from plugformer.errors import ConfigurationError, nearest
from plugformer.experiment import Experiment
from plugformer.interfaces import Batch, Model
from plugformer.model import Sizes, build
from plugformer.registry import Registry
from plugformer.runs import provenance
from plugformer_ablation.design.arms import EMBEDDING, TASK, Arm, context_of
from plugformer_ablation.design.blocks import BUDGETS
from plugformer_ablation.design.study import Study
from plugformer_cli.model_summary import median_example, summarize

STEP = 8
"""Feed-forward widths are multiples of this number: others are slow on most processors."""

TOLERANCE = 0.01
"""Arms that differ by less count as matched."""

MOST_DIFFERENCE = 0.05
"""Arms that differ by more are refused: their comparison would be one of sizes."""

WIDEST = 2**16

MOST_OTHERS = 0.05
"""Largest share of a model's other elements in its products at which equal products mean equal work."""

EXACT = 0.01
"""A budget that whole updates miss by more is told."""

_COUNTED = {"parameters": "parameters", "flops": "FLOPs per token"}
"""The costs that are known before an arm is trained, and their names in notes."""


@dataclass(frozen=True)
class DataSummary:
    """Facts about prepared data.

    Attributes:
        sizes: Sizes of the vocabularies.
        example: An example of median length.
        hashes: A hash of each whole split.
        kept: A hash of what is left of each after examples were dropped.
        counts: How many examples of each were dropped or cut; not of `train` if that is streamed.
        costs: What models have been found to cost with these data.
    """

    sizes: Sizes
    example: Batch
    hashes: dict[str, str]
    kept: dict[str, str]
    counts: dict[str, SplitStats]
    costs: dict[str, dict[str, float]] = field(default_factory=dict)


def matched(arms: Sequence[Arm], study: Study, notify: Callable[[str], None]) -> list[Arm]:
    """Returns arms with the hashes of their data and their costs, equal if the study asks for that.

    Raises:
        ConfigurationError: The arms would not be measured on the same examples; no feed-forward width makes
            an arm equal to the baseline; operations are to be equal, and an arm does much that is not
            counted; or budgets are to be equal, and the task counts epochs, not updates, or arms count
            batches in several units.
        DataError: The data cannot be read.
    """
    if study.match in ("time", *BUDGETS) and any(arm.resolved.task.training.steps is None for arm in arms):
        message = (
            "changes the number of updates, and the task has none: add `training.steps: NUMBER` to `set`"
        )
        raise study.mistakes([(("match",), message)])
    pairs = _with_data(arms, notify)
    baselines = {(arm.name, arm.tried): summary for arm, summary in pairs if not arm.baseline}
    pairs = [
        (_measured(arm, summary, _baseline_of(arm, baselines), study), summary) for arm, summary in pairs
    ]
    equal: list[Arm] = []
    for _, group in groupby(pairs, key=lambda pair: context_of(pair[0].values)):
        (baseline, its), *others = group
        target = count_costs(baseline.resolved.task, its, baseline.resolved.registry)
        same = [_equal(arm, summary, target, study.match) for arm, summary in [(baseline, its), *others]]
        _refuse_unequal(same, study)
        equal += _with_equal_budget(same, study)
    return equal


def _with_data(arms: Sequence[Arm], notify: Callable[[str], None]) -> list[tuple[Arm, DataSummary]]:
    """Returns arms with facts about their data, which are prepared once for all that share them."""
    known: dict[str, DataSummary] = {}
    pairs: list[tuple[Arm, DataSummary]] = []
    sizes: dict[str, tuple[Component, Sizes]] = {}
    for arm in arms:
        task = arm.resolved.task
        blocks = (task.type, task.data, task.tokenizer, task.model.architecture)  # what the data depend on
        key = json.dumps([*(block.model_dump(mode="json") for block in blocks), task.model.max_length])
        if key not in known:
            known[key] = read_data(arm.resolved, notify)
        summary = known[key]
        if arm.start and EMBEDDING in arm.parts:  # it has the vocabulary of its start
            type_, before = sizes[arm.start]
            outputs = before.outputs if type_ == task.type else summary.sizes.outputs
            summary = replace(summary, sizes=Sizes(before.source, outputs))
        sizes[arm.name] = task.type, summary.sizes
        pairs.append((arm, summary))
    return pairs


def _measured(arm: Arm, summary: DataSummary, baseline: DataSummary, study: Study) -> Arm:
    """Returns an arm with the split and the examples that it is measured on, as the baseline is."""
    deciding = deciding_split(study, arm, baseline.hashes)
    for split in ("validation", deciding):
        if summary.kept.get(split) != baseline.kept[split]:
            raise ConfigurationError(
                f"the arm {arm.name!r} would be measured on other {split} examples than the baseline, so "
                "that they cannot be compared\n  let factors change training examples alone; where arms "
                "have different tokenizers, let none drop examples: raise data.length.max"
            )
    parts = provenance(arm.resolved, summary.hashes)["components"].items()
    outside = {name: lock["source"] for name, lock in parts if lock["distribution"] != "plugformer"}
    made_of = json.dumps([summary.hashes.get("train"), outside], sort_keys=True)
    return replace(
        arm,
        notes=tuple(_other_data(summary, baseline)),
        split=deciding,
        test_set=baseline.hashes[deciding],
        made_of=hashlib.sha256(made_of.encode()).hexdigest()[:12],
    )


def _baseline_of(arm: Arm, known: Mapping[tuple[str, str], DataSummary]) -> DataSummary:
    """Returns the data of an arm's baseline, with the same settings if that tries them, too."""
    name = arm.baseline or arm.name
    return known.get((name, arm.tried)) or next(data for (other, _), data in known.items() if other == name)


def _refuse_unequal(arms: Sequence[Arm], study: Study) -> None:
    """Refuses arms that are far from the baseline even with the feed-forward width that comes nearest."""
    if study.match not in _COUNTED:
        return
    counts = [(arm.name, arm.counted[study.match], arm.resolved.task.model.ffn_width) for arm in arms]
    far = dict.fromkeys(
        f"\n  {name!r}: {share:+.2%} with the width that comes nearest, {width}"
        for name, count, width in counts
        if abs(share := count / counts[0][1] - 1) > MOST_DIFFERENCE
    )
    if far:
        message = (
            f"no feed-forward width brings {_COUNTED[study.match]} within {MOST_DIFFERENCE:.0%} of the "
            f"baseline's in these arms{''.join(far)}\n  write `match: none`, or name sizes under `scales`: "
            "arms are matched and compared within each"
        )
        raise study.mistakes([(("match",), message)])


def read_data(resolved: Experiment, notify: Callable[[str], None]) -> DataSummary:
    """Prepares a task's data, and returns facts about them; the rest is freed."""
    data = prepare(resolved)
    for notice in (*data.notices, *(f"{name}: {count}" for name, count in data.lengths.items())):
        notify(notice)
    kept = dict(data.hashes)
    for name, split in data.splits.items():
        if name != "train" and data.lengths[name].dropped:
            inputs = json.dumps([split.input(row) for row in range(len(split))])
            kept[name] = hashlib.sha256(inputs.encode()).hexdigest()
    return DataSummary(data.processor.sizes, median_example(data)[1], data.hashes, kept, data.lengths)


def _other_data(summary: DataSummary, baseline: DataSummary) -> Iterator[str]:
    """Yields in what an arm's examples differ from those of the baseline: other ones, or cut ones."""
    ours, theirs = (facts.counts.get("train") for facts in (summary, baseline))
    numbers = [stats and stats.rows - stats.dropped for stats in (ours, theirs)]  # None if streamed
    same = summary.hashes["train"] == baseline.hashes["train"] and numbers[0] == numbers[1]
    if not same and (ours is None) == (theirs is None):  # hashes of streamed examples are other ones
        counted = f": {numbers[0]:,} for {numbers[1]:,}" if ours else ""
        yield f"trains on other examples than the baseline{counted}"
    cut = [
        f"{stats.truncated:,} of {split} for {before:,}"
        for split, stats in summary.counts.items()
        if stats.truncated != (before := baseline.counts.get(split, SplitStats()).truncated)
    ]
    if cut:
        yield f"other texts are cut than of the baseline: {', '.join(cut)}"


def deciding_split(study: Study, arm: Arm, hashes: dict[str, str]) -> str:
    """Returns the split of an arm's final comparison.

    Raises:
        ConfigurationError: The data have no split of the name that the study gives, or it is the split by
            which settings, arms or the parameters of trainings are chosen.
    """
    known = sorted(name for name in hashes if name != "train")
    place, task = study.task_of(arm.values.get(TASK, ""))
    wanted = task.split or study.split
    if wanted is None:
        wanted = next((name for name in known if name.startswith("test")), "validation")
    if wanted == "validation" and (study.tunes or study.screen):
        message = (
            "chooses on validation, which also decides this study: choose a test split with `split` (data "
            "without one: `data.split.test: 0.1`), or leave it out"
        )
        raise study.mistakes([(("tune" if study.tunes else "screen",), message)])
    if wanted == "validation" and _chooses(arm.resolved.task.training):
        message = (
            "validation decides here, and chooses which of several evaluations' parameters a training keeps: "
            "choose a test split with `split` (data without one: `data.split.test: 0.1`), or keep the last "
            "ones by `training.callbacks: [{name: average_checkpoints, checkpoints: 1}]` in `set`"
        )
        raise study.mistakes([((*place, "split") if task.split else ("split",), message)])
    if wanted not in known:
        message = f"unknown split {wanted!r}{nearest(wanted, known)}\n  known: {', '.join(known)}"
        raise study.mistakes([((*place, "split") if task.split else ("split",), message)])
    return wanted


def _chooses(training: TrainingSettings) -> bool:
    """Returns whether a training keeps the parameters of the best of several evaluations."""
    once = training.steps and training.evaluate_every and training.evaluate_every >= training.steps
    averages = [each for each in training.callbacks if each.name.endswith("average_checkpoints")]
    return not once and all(each.options.get("of") == "best" for each in averages)


def _built(task: Task, sizes: Sizes, registry: Registry, device: str) -> tuple[Model, int]:
    """Returns a model, and the number of its parameters; on the meta device nothing is allocated for them."""
    with torch.device(device):
        model = build(Experiment.of(task, registry).spec, sizes)
    return model, sum(parameter.numel() for parameter in model.parameters())


def count_costs(task: Task, facts: DataSummary, registry: Registry) -> dict[str, float]:
    """Returns the costs that are known before a training; see `Arm.counted`. Each model is built once."""

    def count(device: str) -> dict[str, float]:
        model, parameters = _built(task, facts.sizes, registry, device)
        whole = summarize(model, facts.example.to(device))[0]
        tokens = facts.example.tokens
        return {"parameters": parameters, "flops": whole.flops / tokens, "elements": whole.elements / tokens}

    key = json.dumps([task.type.model_dump(mode="json"), task.model.model_dump(mode="json")])
    if key not in facts.costs:
        try:
            facts.costs[key] = count("meta")
        except (NotImplementedError, RuntimeError):  # operations that depend on values, such as routing
            facts.costs[key] = count("cpu")
    return facts.costs[key]


def solve_width(cost: Callable[[int], float], target: float) -> int:
    """Returns the multiple of eight at which the cost, which grows with the width, is nearest to a target."""
    widest = STEP
    while cost(widest) < target and widest < WIDEST:  # wide models are expensive to look at
        widest *= 2
    widths = range(STEP, widest + STEP, STEP)
    above = min(bisect_left(widths, target, key=cost), len(widths) - 1)
    return min(widths[max(above - 1, 0) : above + 1], key=lambda width: abs(cost(width) - target))


def _equal(arm: Arm, facts: DataSummary, target: dict[str, float], match: str) -> Arm:
    """Returns an arm with its costs, and a feed-forward width that makes them equal to the baseline's."""
    task, registry = arm.resolved.task, arm.resolved.registry

    def with_width(width: int) -> Task:
        return task.model_copy(update={"model": task.model.model_copy(update={"ffn_width": width})})

    if match in _COUNTED:

        @cache
        def cost(width: int) -> float:
            if match == "parameters":
                return float(_built(with_width(width), facts.sizes, registry, "meta")[1])
            return count_costs(with_width(width), facts, registry)[match]

        usual, wanted = task.model.ffn_width, float(target[match])
        solved = usual if cost(usual) == wanted else solve_width(cost, wanted)
        width = min((usual, solved), key=lambda width: abs(cost(width) - wanted))
        share = cost(width) / wanted - 1
        far = ": no feed-forward width comes nearer, it is not matched" if abs(share) > TOLERANCE else ""
        notes = [f"feed-forward width {width} for {usual}"] * (width != usual)
        notes += [f"{_COUNTED[match]} {share:+.2%} against the baseline{far}"] * (share != 0)
        arm = arm.with_task(with_width(width), *notes)
    costs = count_costs(arm.resolved.task, facts, registry)
    if match in ("flops", "operations") and costs["elements"] > MOST_OTHERS * costs["flops"]:
        raise ConfigurationError(
            f"`match: {match}` counts matrix products, and the other operators of the arm {arm.name!r} write "
            f"{costs['elements'] / costs['flops']:.1%} as many elements, expected at most {MOST_OTHERS:.0%}\n"
            "  write `match: time` or `match: parameters`"
        )
    return replace(arm, hashes=facts.hashes, counted=costs)


def _with_equal_budget(arms: Sequence[Arm], study: Study) -> list[Arm]:
    """Returns arms whose trainings read as many tokens, or need as many operations, as that of the first.

    Where sizes are tuned, each of them has the budget of the first arm with the first of its settings. With
    operations the best one is then the compute-optimal size: approach 2 of Hoffmann et al. (2022),
    section 3.2, https://arxiv.org/abs/2203.15556.

    Raises:
        ConfigurationError: Some arms count their batches in examples, and some in tokens.
    """
    if study.match not in BUDGETS:
        return list(arms)
    baseline = arms[0]
    steps = baseline.resolved.task.training.steps or 0
    budget = steps * _cost(baseline, baseline, study.match)
    return [_within(arm, budget / _cost(arm, baseline, study.match), steps, study.match) for arm in arms]


def _cost(arm: Arm, baseline: Arm, match: str) -> float:
    """Returns what an update costs, in a unit that all arms share."""
    training, usual = (each.resolved.task.training for each in (arm, baseline))
    ours, theirs = ([each.batch_size is None, each.batch_tokens is None] for each in (training, usual))
    if ours != theirs:
        raise ConfigurationError(
            f"`match: {match}` needs one unit of batches, and the arm {arm.name!r} has another one than the "
            "baseline\n  give training.batch_size, or training.batch_tokens, in all arms"
        )
    batch = (training.batch_size or training.batch_tokens or 1) * training.batches_per_update
    return batch * (arm.counted["flops"] if match == "operations" else 1.0)


def _within(arm: Arm, allowed: float, usual: int, match: str) -> Arm:
    """Returns an arm with the whole number of updates that comes nearest to what is allowed."""
    steps = max(1, round(allowed))
    share = steps / allowed - 1
    off = f" ({share:+.1%})" if abs(share) > EXACT else ""
    note = f"{steps:,} updates for {usual:,} of the baseline: equal {match}{off}"
    return arm.with_steps(steps, *[note] * (steps != usual))
