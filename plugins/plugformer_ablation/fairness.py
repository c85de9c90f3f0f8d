"""Making arms comparable: the same data to be measured on, and equal costs where the study asks for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from plugformer.configuration import ResolvedTask, report
from plugformer.errors import ConfigurationError, nearest
from plugformer_ablation.cost import Cost, Facts, cost_of, count_parameters
from plugformer_ablation.declaration import Declared
from plugformer_ablation.matching import TOLERANCE, mismatch, solve_width, with_hidden_width
from plugformer_ablation.resolution import Variant

_WORDS = {"parameters": "parameters", "flops": "FLOPs per token"}


@dataclass(frozen=True)
class Priced:
    """A variant with what it costs.

    Attributes:
        variant: With the hidden width that was solved for.
        facts: Of its data.
        cost: Of its model.
        notes: What is not equal to the baseline.
        failure: Why no settings could be chosen, where that is so.
    """

    variant: Variant
    facts: Facts
    cost: Cost
    notes: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.variant.arm.name

    @property
    def resolved(self) -> ResolvedTask:
        """The variant's task."""
        return self.variant.resolved

    def with_task(self, resolved: ResolvedTask, *notes: str) -> "Priced":
        """Returns the same with another task, and with more notes."""
        kept = tuple(note for note in notes if note)
        return replace(self, variant=replace(self.variant, resolved=resolved), notes=(*self.notes, *kept))


def priced(
    variants: Sequence[Variant], declared: Declared, facts_of: Callable[[ResolvedTask], Facts]
) -> list[Priced]:
    """Returns all variants with their costs, which are made equal if the study asks for that.

    Args:
        variants: The first is the baseline.
        declared: The study.
        facts_of: Reads the data of a task.

    Raises:
        ConfigurationError: The arms would not be measured on the same examples.
        DataError: The data cannot be read.
    """
    known = [(variant, facts_of(variant.resolved)) for variant in variants]
    split = deciding_split(declared, known[0][1])
    for variant, facts in known:
        _refuse_other_examples(variant, facts, known[0][1], ("validation", split))
    first, facts = known[0]
    baseline = cost_of(first.resolved.task, facts, first.resolved.registry)
    return [_equal(variant, facts, baseline, declared.study.match) for variant, facts in known]


def deciding_split(declared: Declared, facts: Facts) -> str:
    """Returns the split that a study is decided on.

    Raises:
        ConfigurationError: The data have no split of the name that the study gives.
    """
    known = sorted(name for name in facts.hashes if name != "train")
    wanted = declared.study.split
    if wanted is None:
        return next((name for name in known if name.startswith("test")), "validation")
    if wanted not in known:
        message, hint = f"unknown split {wanted!r}{nearest(wanted, known)}", f"known: {', '.join(known)}"
        raise ConfigurationError(report([declared.problem(("split",), message, hint)]))
    return wanted


def _refuse_other_examples(variant: Variant, facts: Facts, first: Facts, splits: Sequence[str]) -> None:
    for split in splits:
        if facts.kept.get(split) != first.kept[split]:
            raise ConfigurationError(
                f"the arm {variant.arm.name!r} is measured on other {split} examples than the baseline, so "
                "that they cannot be compared\n  let factors change training examples alone; where arms "
                "have different tokenizers, let none drop examples: raise data.length.max"
            )


def _equal(variant: Variant, facts: Facts, baseline: Cost, match: str) -> Priced:
    task, registry = variant.resolved.task, variant.resolved.registry
    own = cost_of(task, facts, registry)
    if match not in _WORDS:
        return Priced(variant, facts, own, _differences(own, baseline))

    @cache
    def cost(width: int) -> float:
        changed = with_hidden_width(task, width)
        if match == "parameters":
            return float(count_parameters(changed, facts.sizes, registry))
        return cost_of(changed, facts, registry).flops_per_token

    target = float(baseline.parameters if match == "parameters" else baseline.flops_per_token)
    width = task.model.hidden_width
    if cost(width) != target:
        width = min((width, solve_width(cost, target)), key=lambda each: abs(cost(each) - target))
    note = "" if width == task.model.hidden_width else f"hidden width {width} for {task.model.hidden_width}"
    solved = replace(variant.resolved, task=with_hidden_width(task, width))
    costs = cost_of(solved.task, facts, registry)
    return Priced(variant, facts, costs).with_task(solved, note, mismatch(_WORDS[match], cost(width), target))


def _differences(own: Cost, baseline: Cost) -> tuple[str, ...]:
    """Returns notes about what is not equal and was not asked to be."""
    shares = {
        "parameters": own.parameters / baseline.parameters - 1,
        "FLOPs per token": own.flops_per_token / baseline.flops_per_token - 1,
    }
    return tuple(
        f"{what} {share:+.1%} against the baseline"
        for what, share in shares.items()
        if abs(share) > TOLERANCE
    )
