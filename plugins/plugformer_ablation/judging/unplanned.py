"""Looks that were not planned: reports that judge the same arms again, or others against one of them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from plugformer_ablation.judging.comparison import ALPHA, Verdict
from plugformer_ablation.judging.over_tasks import OverTasks
from plugformer_ablation.judging.records import LookRecord
from plugformer_ablation.judging.results import Record


class LookFamily(NamedTuple):
    """What all reports of a folder have judged that share arms, also by way of other reports.

    Every look gets half of the chance of a false alarm that the one before had, and divides it by the number
    of pairs of all looks: of those that a look leaves out, any might have been chosen for it. A pair that
    has been judged before with the same seeds, examples, metric, data and code keeps its chance: nothing new
    is tested. So the chance that any look errs is at most the sum of theirs, whichever of its pairs were
    chosen (Bonferroni).
    What is new, seeds or arms, must not be chosen by results, nor may another arm become the baseline.

    Attributes:
        looks: The reports, in their order; those without a verdict have a chance of 0.
        number: How many pairs they have, with those of the report that is being made.
        chances: By comparison of this report, what the look that tests it may err.
        late: The comparisons whose first look had another smallest effect: chosen after a result, one could
            make any arms equivalent.
    """

    looks: list[LookRecord]
    number: int
    chances: dict[str, float]
    late: frozenset[str] = frozenset()

    @property
    def least(self) -> float:
        """The chance of an error that contrasts and further metrics of this report have."""
        return min(self.chances.values(), default=ALPHA)


def pair_hashes(study: Record, arms: Sequence[Record], overall: Sequence[OverTasks]) -> dict[str, str]:
    """Returns the hashes of both arms of each comparison: of tasks without the seed, and splits.

    What each seed chooses does not matter, but from what and how it does.
    """
    own: dict[str | None, str] = {}
    for arm in arms:  # what starts from an arm comes after it
        kept = [arm[key] for key in ("task", "split", "parts")]
        values = study.get("arms", {}).get(arm["values"].get("arm"), {}).get("tune"), study.get("tune")
        if any(values) and study.get("tuning", {}).get("seeds") == "each":
            kept += [study["tuning"], *values]
        own[arm["name"]] = _hash([*kept, own.get(arm["start"])])
    pairs = {
        arm["name"]: "-".join(sorted([own[arm["name"]], own[arm["baseline"]]]))
        for arm in arms
        if arm["baseline"] is not None
    }
    return pairs | {each.name: _hash([pairs[arm["name"]] for arm in each.arms]) for each in overall}


def _hash(record: Any) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:12]


def tested_hashes(arms: Sequence[Record], overall: Sequence[OverTasks]) -> dict[str, str]:
    """Returns a hash of all else that each comparison depends on: metric, test examples, data and code."""
    made_of = {arm["name"]: arm["made_of"] for arm in arms}
    own = {
        arm["name"]: _hash([arm["metric"], arm["test_set"], arm["made_of"], made_of[arm["baseline"]]])
        for arm in arms
        if arm["baseline"] is not None
    }
    return own | {each.name: _hash([own[arm["name"]] for arm in each.arms]) for each in overall}


def family_of(
    pairs: Mapping[str, str],
    looks: Sequence[LookRecord],
    study: Record,
    tested: Mapping[str, str],
) -> LookFamily:
    """Returns the family of pairs, by the names of their comparisons, in a report with a study's seeds."""
    related = _related(pairs.values(), looks)
    judged = [look for look in related if look["chance"]]
    chances = dict.fromkeys(pairs, ALPHA / 2 ** len(judged))
    for look in reversed(judged):
        if (look["seeds"], look["planned"]) == (study["seeds"], study["looks"]):
            before = {(pair, look["tested"][name]) for name, pair in look["pairs"].items()}
            chances |= {name: look["chance"] for name in pairs if (pairs[name], tested[name]) in before}
    declared: dict[str, Any] = {}  # by the first look at each pair
    for look in reversed(judged):
        declared |= dict.fromkeys(look["pairs"].values(), look["smallest_effect"])
    other = {pair for pair, effect in declared.items() if effect != study["smallest_effect"]}
    late = frozenset(name for name, pair in pairs.items() if pair in other)
    known = {*pairs.values(), *(pair for look in related for pair in look["pairs"].values())}
    return LookFamily(related, max(len(known), len(pairs), 1), chances, late)


def _related(pairs: Iterable[str], looks: Sequence[LookRecord]) -> list[LookRecord]:
    """Returns the looks that share an arm with pairs, or with one another."""
    arms, before = {arm for pair in pairs for arm in pair.split("-")}, 0
    own = [{arm for pair in look["pairs"].values() for arm in pair.split("-")} for look in looks]
    while len(arms) > before:
        before = len(arms)
        arms = arms.union(*(each for each in own if each & arms))
    return [look for look, each in zip(looks, own, strict=True) if each & arms]


def with_look(
    pairs: Mapping[str, str],
    looks: Sequence[LookRecord],
    study: Record,
    verdicts: Mapping[str, str],
    tested: Mapping[str, str],
) -> list[LookRecord]:
    """Returns the looks of a folder with that of the present report, unless it tests nothing new."""
    family = family_of(pairs, looks, study, tested)
    spent = sum(look["chance"] > 0 for look in family.looks)
    chance = ALPHA / 2**spent if {*verdicts.values()} - {Verdict.NONE} else 0.0
    look: LookRecord = {
        "seeds": study["seeds"],
        "planned": study["looks"],
        "chance": chance,
        "smallest_effect": study["smallest_effect"],
        "pairs": dict(pairs),
        "tested": dict(tested),
        "verdicts": dict(verdicts),
    }
    new = look not in looks if not chance else chance in family.chances.values()
    return [*looks, look] if new and pairs else [*looks]
