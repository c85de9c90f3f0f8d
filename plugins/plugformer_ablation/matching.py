"""Making arms comparable: they have the same evaluation data, and equal costs if the study asks for it."""

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch

from plugformer.configuration import Task, report
from plugformer.data import PreparedData, fingerprint
from plugformer.errors import ConfigurationError, nearest
from plugformer.experiment import Experiment
from plugformer.hooks import prepared_data
from plugformer.interfaces import Batch, Sizes
from plugformer.model import build
from plugformer.registry import Registry
from plugformer_ablation.arms import Arm
from plugformer_ablation.study import Study
from plugformer_cli.model_summary import median_example, summarize

STEP = 8
"""Feed-forward widths are multiples of this number: others are slow on most processors."""

TOLERANCE = 0.01
"""Arms that differ by less count as matched."""

WIDEST = 2**16

_COUNTED = {"parameters": "parameters", "flops": "FLOPs per token"}
"""The costs that are known before an arm is trained, and their names in notes."""


@dataclass(frozen=True)
class DataSummary:
    """Facts about an arm's data.

    Attributes:
        sizes: Sizes of the vocabularies.
        example: A training example of median length.
        hashes: A hash of each split's content.
        kept: A hash of each split's inputs that are not longer than the limit.
    """

    sizes: Sizes
    example: Batch
    hashes: dict[str, str]
    kept: dict[str, str]


def matched(arms: Sequence[Arm], study: Study, notify: Callable[[str], None]) -> list[Arm]:
    """Returns arms with the hashes of their data and their costs, equal if the study asks for that.

    Args:
        arms: The arms; the first is the baseline.
        study: The study.
        notify: Receives notices about the data.

    Raises:
        ConfigurationError: The arms would not be measured on the same examples.
        DataError: The data cannot be read.
    """
    known: dict[str, DataSummary] = {}
    for arm in arms:
        if (key := _data_key(arm.resolved.task)) not in known:
            known[key] = read_data(arm.resolved, notify)
    facts = [known[_data_key(arm.resolved.task)] for arm in arms]
    split = deciding_split(study, facts[0].hashes)
    for arm, summary in zip(arms, facts, strict=True):
        _refuse_other_examples(arm, summary, facts[0], ("validation", split))
    target = count_costs(arms[0].resolved.task, facts[0], arms[0].resolved.registry)
    return [
        replace(_equal(arm, summary, target, study.match), hashes=summary.hashes)
        for arm, summary in zip(arms, facts, strict=True)
    ]


def with_differences(arms: Sequence[Arm], study: Study) -> list[Arm]:
    """Returns arms with notes on costs that differ from the baseline's, unless the study makes them equal."""
    if study.match in _COUNTED:
        return list(arms)
    result = []
    for arm in arms:
        costs = (arm.parameters, arms[0].parameters), (arm.flops_per_token, arms[0].flops_per_token)
        notes = [
            f"{what} {cost / target - 1:+.1%} against the baseline"
            for what, (cost, target) in zip(_COUNTED.values(), costs, strict=True)
            if abs(cost / target - 1) > TOLERANCE
        ]
        result.append(replace(arm, notes=(*notes, *arm.notes)))
    return result


def read_data(resolved: Experiment, notify: Callable[[str], None]) -> DataSummary:
    """Prepares a task's data, and returns facts about them; the rest is freed."""
    data = prepared_data(resolved)
    for notice in (*data.notices, *(f"{name}: {count}" for name, count in data.lengths.items())):
        notify(notice)
    example = median_example(data)[1]
    return DataSummary(data.processor.sizes, example, data.hashes, _kept_hashes(data))


def deciding_split(study: Study, hashes: dict[str, str]) -> str:
    """Returns the split of the final comparison.

    Raises:
        ConfigurationError: The data have no split of the name that the study gives.
    """
    known = sorted(name for name in hashes if name != "train")
    wanted = study.split
    if wanted is None:
        return next((name for name in known if name.startswith("test")), "validation")
    if wanted not in known:
        message, hint = f"unknown split {wanted!r}{nearest(wanted, known)}", f"known: {', '.join(known)}"
        raise ConfigurationError(report([study.problem(("split",), message, hint)]))
    return wanted


def count_parameters(task: Task, sizes: Sizes, registry: Registry) -> int:
    """Returns the number of a model's parameters; nothing is allocated for them."""
    with torch.device("meta"):
        model = build(Experiment.of(task, registry).spec, sizes)
    return sum(parameter.numel() for parameter in model.parameters())


def count_costs(task: Task, facts: DataSummary, registry: Registry) -> dict[str, float]:
    """Returns a model's number of `parameters`, and `flops` of a forward pass for each token; see `Arm`."""

    def count(device: str) -> dict[str, float]:
        with torch.device(device):
            model = build(Experiment.of(task, registry).spec, facts.sizes)
        whole = summarize(model, facts.example.to(device))[0]
        return {"parameters": whole.parameters, "flops": whole.flops / facts.example.tokens}

    try:
        return count("meta")
    except (NotImplementedError, RuntimeError):  # operations that depend on values, such as routing
        return count("cpu")


def solve_width(cost: Callable[[int], float], target: float) -> int:
    """Returns the multiple of eight at which the cost, which grows with the width, is nearest to a target."""
    widest = STEP
    while cost(widest) < target and widest < WIDEST:  # wide models are expensive to look at
        widest *= 2
    widths = range(STEP, widest + STEP, STEP)
    above = min(bisect_left(widths, target, key=cost), len(widths) - 1)
    return min(widths[max(above - 1, 0) : above + 1], key=lambda width: abs(cost(width) - target))


def mismatch(what: str, cost: float, target: float) -> str:
    """Returns a note about the remaining difference, empty if there is none."""
    share = cost / target - 1
    suffix = "" if abs(share) <= TOLERANCE else ": no feed-forward width comes nearer, it is not matched"
    return f"{what} {share:+.2%} against the baseline{suffix}" if share else ""


def _data_key(task: Task) -> str:
    """Returns the settings that the data of a task depend on."""
    blocks = (task.type, task.data, task.tokenizer, task.model.architecture)
    return json.dumps([*(block.model_dump(mode="json") for block in blocks), task.model.max_length])


def _refuse_other_examples(arm: Arm, facts: DataSummary, first: DataSummary, splits: Sequence[str]) -> None:
    for split in splits:
        if facts.kept.get(split) != first.kept[split]:
            raise ConfigurationError(
                f"the arm {arm.name!r} would be measured on other {split} examples than the baseline, so "
                "that they cannot be compared\n  let factors change training examples alone; where arms "
                "have different tokenizers, let none drop examples: raise data.length.max"
            )


def _equal(arm: Arm, facts: DataSummary, target: dict[str, float], match: str) -> Arm:
    """Returns an arm with its costs, and a feed-forward width that makes them equal to the baseline's."""
    task, registry = arm.resolved.task, arm.resolved.registry
    if match in _COUNTED:

        @cache
        def cost(width: int) -> float:
            changed = _with_ffn_width(task, width)
            if match == "parameters":
                return float(count_parameters(changed, facts.sizes, registry))
            return count_costs(changed, facts, registry)[match]

        usual, wanted = task.model.ffn_width, float(target[match])
        solved = usual if cost(usual) == wanted else solve_width(cost, wanted)
        width = min((usual, solved), key=lambda width: abs(cost(width) - wanted))
        note = "" if width == usual else f"feed-forward width {width} for {usual}"
        remaining = mismatch(_COUNTED[match], cost(width), wanted)
        arm = arm.with_task(_with_ffn_width(task, width), note, remaining)
    costs = count_costs(arm.resolved.task, facts, registry)
    return replace(arm, parameters=int(costs["parameters"]), flops_per_token=costs["flops"])


def _with_ffn_width(task: Task, width: int) -> Task:
    return task.model_copy(update={"model": task.model.model_copy(update={"ffn_width": width})})


def _kept_hashes(data: PreparedData) -> dict[str, str]:
    """Returns, by split, a hash of the examples that are evaluated."""
    return {
        name: fingerprint(*(split.input(row) for row in range(len(split))))
        if data.lengths[name].dropped
        else data.hashes[name]
        for name, split in data.splits.items()
        if name != "train"
    }
