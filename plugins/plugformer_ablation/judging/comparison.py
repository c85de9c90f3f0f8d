"""Whether an arm differs from its baseline, over seeds and test examples; corrected for all of a study."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite, nan, sqrt
from statistics import fmean

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer_ablation.judging.looks import Look, would_decide
from plugformer_ablation.judging.records import Ends, Judged
from plugformer_ablation.judging.statistics import Interval, StudentT

ALPHA = 0.05
"""The chance that a study whose arms are all alike reports any difference."""

_EXTREMES = (0.0, 1.0, 100.0)
"""Where metrics of this field have their floor or ceiling: shares, perplexity, scores in percent."""

ROUNDING = 1e-12
"""Relative differences below this are the rounding of sums, not differences."""


@dataclass(frozen=True)
class Scores:
    """What one arm scored on a number of test examples, by seed; cells that failed are missing.

    `failures` are the reasons of those that failed; `diverged` are seeds with the score of an untrained
    model. `resampled` are the scores on test sets drawn with
    replacement, the same ones for every cell; it is empty where there are no statistics of examples.
    """

    scores: Mapping[int, float]
    resampled: Mapping[int, Float[ndarray, " resamples"]] = field(default_factory=dict)
    examples: int = 0
    failures: Mapping[int, str] = field(default_factory=dict)
    diverged: frozenset[int] = frozenset()


class Verdict(StrEnum):
    """What a study says about an arm against its baseline.

    Without a smallest effect that matters, arms are "not distinguishable" for "undecided".
    """

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"
    NOT_DISTINGUISHABLE = "not distinguishable"
    NONE = "no verdict"

    @property
    def decides(self) -> bool:
        """Whether it ends the training of further seeds."""
        return self in (Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT)


@dataclass(frozen=True)
class PairedComparison:
    """An arm minus its baseline.

    Attributes:
        difference: The mean over the seeds that both have; None without any.
        pairs: How many seeds these are.
        seeds: The paired t test over seeds; None with less than two, or if all differences are the same.
        examples: The difference with its error over test examples; None if they cannot be paired.
        both: The difference with its errors over seeds and examples, by which it is judged; None if one of
            them is unknown.
        identical: Whether the arms scored the same with every seed.
        constant: Whether all cells of both, of any task, have one score, as where a metric is at its floor.
        failed: The planned seeds with which the arm, and with which the baseline, has no finite score.
        diverged: The seeds with which each has the score of an untrained model.
        trained: With how many seeds each has a score.
        notes: What keeps this from being an ordinary comparison.
    """

    difference: float | None
    pairs: int
    seeds: StudentT | None = None
    examples: StudentT | None = None
    both: StudentT | None = None
    identical: bool = False
    constant: bool = False
    failed: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    diverged: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    trained: tuple[int, int] = (0, 0)
    notes: tuple[str, ...] = ()

    @property
    def p_diverged(self) -> float | None:
        """Of a difference in how often trainings diverge; None if as many did on both sides.

        Boschloo's exact test (1970), https://doi.org/10.1111/j.1467-9574.1970.tb00104.x.
        """
        sides = zip(self.diverged, self.failed, strict=True)
        ours, theirs = (len({*diverged} - {*failed}) for diverged, failed in sides)
        if ours == theirs or 0 in self.trained:
            return None
        from scipy.stats import boschloo_exact

        table = [[ours, theirs], [self.trained[0] - ours, self.trained[1] - theirs]]
        return float(boschloo_exact(table, n=32).pvalue)

    @property
    def p(self) -> float | None:
        """Of the difference, over seeds and examples; None if it cannot be tested."""
        if self.both is None:
            return 1.0 if self.identical else None
        return self.both.p

    @property
    def effect_size(self) -> float | None:
        """The mean difference over the deviation of the paired differences: Cohen's d_z.

        Lakens (2013), equation 7, https://doi.org/10.3389/fpsyg.2013.00863. It depends on how alike the pairs
        are, and is not to be compared with effect sizes of unpaired studies.
        """
        return None if self.seeds is None else self.seeds.mean / (self.seeds.error * sqrt(self.pairs))

    def interval(self, level: float) -> Interval | None:
        """Returns the interval over seeds and examples, or over what of them there is.

        It excludes 0 exactly where `p` is below 1 - level. None if there is none, or nothing varied of arms
        that are identical or of which examples alone are known.
        """
        known = self.both or self.seeds or self.examples
        if known is None or ((self.both is None or self.identical) and not known.total_error):
            return None
        return known.interval(level)

    def verdict(self, look: Look, smallest: float | None, *, higher_is_better: bool) -> Verdict:
        """Returns the verdict: there is a difference if 0 is outside of the interval.

        Arms are equivalent if the interval at the lower level of equivalence lies within the smallest
        effect that matters, to either side; even if it excludes 0.

        A verdict in favor of a side needs all of its seeds, none of them diverged. Those that did not fail
        are a selection: the mean of the trainings that went well is not that of the arm. Equivalence needs
        those of both sides, an error over examples, and scores that are not all the same: at its floor a
        metric tells no arms apart.
        """
        if self.both is None and not self.identical:
            return Verdict.NONE
        low, high = self.interval(1 - look.equivalence) or (0.0, 0.0)
        broken = [any(seeds) for seeds in zip(self.failed, self.diverged, strict=True)]
        excluded = self.both is not None and smallest is not None and -smallest < low <= high < smallest
        if excluded and not self.constant and not any(broken):
            return Verdict.EQUIVALENT
        low, high = self.interval(1 - look.alpha) or (0.0, 0.0)
        if low <= 0 <= high:
            if any(self.failed):
                return Verdict.NONE
            return Verdict.NOT_DISTINGUISHABLE if smallest is None else Verdict.UNDECIDED
        arm_is_better = (low > 0) == higher_is_better
        if broken[0 if arm_is_better else 1]:
            return Verdict.NONE
        return Verdict.BETTER if arm_is_better else Verdict.WORSE


def compare(arm: Scores, baseline: Scores, seeds: Sequence[int]) -> PairedComparison:
    """Compares an arm with its baseline, pair by pair of the same seed.

    Seeds without a finite score in both arms are in no pair, and limit the verdict; the first note counts
    them.
    """
    failed = _failed(arm, seeds), _failed(baseline, seeds)
    common = [seed for seed in seeds if not any(seed in side for side in failed)]
    diverged = _diverged(arm, seeds), _diverged(baseline, seeds)
    notes = []
    for kind, sides in (("failed", failed), ("diverged", diverged)):
        if any(sides):
            told = [_told(*each, len(seeds)) for each in zip((arm, baseline), sides, strict=True)]
            notes.append(f"{kind}: the arm {told[0]}, the baseline {told[1]}")
    trained = len(seeds) - len(failed[0]), len(seeds) - len(failed[1])
    if not common:
        notes.append("no verdict without a pair of scores")
        return PairedComparison(
            None, 0, failed=failed, diverged=diverged, trained=trained, notes=tuple(notes)
        )
    ours, theirs = (np.array([side.scores[seed] for seed in common]) for side in (arm, baseline))
    difference = float((ours - theirs).mean())
    same = bool(np.ptp(ours - theirs) <= ROUNDING * np.abs([ours, theirs]).max())
    over_seeds = None if same else StudentT.of(ours - theirs)
    missing = _unpaired(arm, baseline, common)
    over_examples: StudentT | None = None
    both: StudentT | None = None
    if not missing:
        over_examples, shared = _over_examples(arm, baseline, common, difference)
        if over_seeds is not None:
            both = StudentT(difference, over_seeds.error, over_seeds.freedom, shared)
        elif len(common) > 1:
            # A few equal differences do not show that seeds never matter: their number limits what is known.
            both = StudentT(difference, over_examples.error, float(len(common) - 1))
    if both is not None and both.total_error == 0 and difference:
        notes.append("neither seeds nor test examples varied: the error of the difference is unknown")
    return PairedComparison(
        difference,
        len(common),
        over_seeds,
        over_examples,
        both,
        identical=same and len(common) > 1 and bool(abs(difference) <= ROUNDING * np.abs(theirs).max()),
        constant=bool(np.ptp([ours, theirs]) == 0),
        failed=failed,
        diverged=diverged,
        trained=trained,
        notes=(*notes, *_cases(ours, theirs, missing, same=same)),
    )


def compare_at_looks(
    arm: Scores,
    baseline: Scores,
    seeds: Sequence[int],
    looks: Sequence[Look],
    declared: float | str | None,
    tasks: Sequence[tuple[Scores, Scores]] = (),
    *,
    higher_is_better: bool,
) -> tuple[PairedComparison, Look, float | None]:
    """Returns a comparison at the first planned look that decides it, or else at the last one that there is.

    A look is there when its seeds have been trained, or have failed. With it comes the smallest effect that
    matters; one that is `declared` in percent is a share of the baseline's mean over the seeds of the look.
    Of a mean over `tasks` none may have one score alone, for arms to be equivalent.
    """
    tried = {*arm.scores, *arm.failures} & {*baseline.scores, *baseline.failures}
    for look in [look for look in looks if tried.issuperset(seeds[: look.seeds])] or looks[:1]:
        seen = seeds[: look.seeds]
        comparison, smallest = compare(arm, baseline, seen), _smallest_effect(declared, baseline, seen)
        if any(_constant(*sides, seen) for sides in tasks):
            comparison = replace(comparison, constant=True)
        if comparison.verdict(look, smallest, higher_is_better=higher_is_better).decides:
            break
    return comparison, look, smallest


def _constant(arm: Scores, baseline: Scores, seeds: Sequence[int]) -> bool:
    """Returns whether all trainings with these seeds have one score."""
    return len({side.scores[seed] for side in (arm, baseline) for seed in seeds if seed in side.scores}) == 1


def _smallest_effect(declared: float | str | None, baseline: Scores, seeds: Sequence[int]) -> float | None:
    """Returns the smallest effect that matters as a difference."""
    if not isinstance(declared, str):
        return declared
    known = [score for seed in seeds if isfinite(score := baseline.scores.get(seed, nan))]
    return float(declared.rstrip(" %")) / 100 * abs(fmean(known)) if known else None


def judge(
    comparison: PairedComparison, look: Look, smallest: float | None = None, *, higher_is_better: bool
) -> Judged:
    """Judges a comparison, and returns a record of it for the study's report.

    One correction, Bonferroni's, is made for p, intervals and verdicts: Dunn (1961),
    https://doi.org/10.1080/01621459.1961.10482090. Comparisons that cannot be tested count among those
    planned: a failed cell does not make it easier for the others. `level` is that of the interval from `low`
    to `high`, so high that all of the study, at all planned looks, hold together with 95 %; `p.corrected` is
    below `ALPHA` exactly where this interval excludes 0. `interval_95` and `p.single` are as if there were
    one comparison alone, and one look.

    Args:
        comparison: Of an arm with its baseline.
        look: At which it was decided, or was last seen; its levels are those of one comparison of the study.
        smallest: The smallest difference that matters; arms that differ by less are equivalent.
        higher_is_better: The direction of the metric.
    """

    def error(test: StudentT | None) -> float | None:
        return None if test is None else test.total_error

    verdict = comparison.verdict(look, smallest, higher_is_better=higher_is_better)
    needed = None
    if not (verdict.decides or any((*comparison.failed, *comparison.diverged))):
        needed = would_decide(comparison.both, look, None if comparison.constant else smallest)
    return {
        "look": look.seeds,
        "pairs": comparison.pairs,
        "failed_seeds": dict(zip(("arm", "baseline"), map(list, comparison.failed), strict=True)),
        "diverged_seeds": dict(zip(("arm", "baseline"), map(list, comparison.diverged), strict=True)),
        "p_diverged": comparison.p_diverged,
        "difference": comparison.difference,
        "level": 1 - look.alpha,
        **ends(comparison.interval(1 - look.alpha)),
        "interval_95": ends(comparison.interval(1 - ALPHA)),
        "p": {
            "single": comparison.p,
            "corrected": None if comparison.p is None else _corrected(comparison.p, look.alpha),
        },
        "standard_error": {
            "seeds": error(comparison.seeds),
            "examples": error(comparison.examples),
            "both": error(comparison.both),
        },
        "effect_size_dz": comparison.effect_size,
        "smallest_effect": smallest,
        "equivalence": None if smallest is None else ends(comparison.interval(1 - look.equivalence)),
        "verdict": str(verdict),
        "would_decide": needed,
        "notes": list(comparison.notes),
    }


def _corrected(p: float, alpha: float) -> float:
    """Returns what is below `ALPHA` if p is below the level alpha, which of an early look may round to 0."""
    return min(1.0, p * ALPHA / alpha) if alpha else float(p > 0)


def ends(interval: Interval | None) -> Ends:
    """Returns the ends of an interval as JSON can hold them, which knows neither infinity nor NaN."""
    low, high = interval if interval and all(map(isfinite, interval)) else (None, None)
    return {"low": low, "high": high}


def _failed(side: Scores, seeds: Sequence[int]) -> tuple[int, ...]:
    """Returns the seeds without a finite score."""
    return tuple(seed for seed in seeds if not isfinite(side.scores.get(seed, nan)))


def _diverged(side: Scores, seeds: Sequence[int]) -> tuple[int, ...]:
    return tuple(seed for seed in seeds if seed in side.diverged)


def broken(side: Scores, seeds: Sequence[int]) -> list[int]:
    """Returns the seeds that failed or diverged; not those that were never trained."""
    known = {**side.scores, **dict.fromkeys(side.failures, nan)}
    return [seed for seed in seeds if seed in side.diverged or not isfinite(known.get(seed, 0.0))]


def _told(side: Scores, failed: Sequence[int], planned: int) -> str:
    """Returns with which seeds a side failed, and why with the first of them."""
    if not failed:
        return "with none"
    first = failed[0]
    reason = side.failures.get(first) or f"its score is {side.scores.get(first, nan):g}"
    numbers = f"seed{'s' if len(failed) > 1 else ''} {', '.join(map(str, failed))}"
    return f"with {numbers} of {planned} ({reason.splitlines()[0].rstrip('.')})"


def _unpaired(arm: Scores, baseline: Scores, seeds: Sequence[int]) -> str:
    """Returns the reason for having no test over examples; empty if there is one."""
    complete = all(seed in side.resampled for seed in seeds for side in (arm, baseline))
    if not complete or arm.examples != baseline.examples or arm.examples < 2:
        return "there are no statistics of at least two test examples that both arms share"
    if not all(np.isfinite(side.resampled[seed]).all() for seed in seeds for side in (arm, baseline)):
        return "on some resampled test sets the metric gives no finite number"
    return ""


def _over_examples(
    arm: Scores, baseline: Scores, seeds: Sequence[int], difference: float
) -> tuple[StudentT, StudentT]:
    """Returns the difference with its error over examples, and with the part of it that seeds share.

    The variance between seeds already includes the effect of examples on single seeds. Their effect on all
    seeds is the covariance of the seeds' differences over test sets: Obuchowski and Rockette (1995), of
    readers and cases, https://doi.org/10.1080/03610919508813243.
    """
    moved = np.array([arm.resampled[seed] - baseline.resampled[seed] for seed in seeds])
    covariance = np.atleast_2d(np.cov(moved))
    alone = float(np.trace(covariance))
    of_pairs = len(seeds) * (len(seeds) - 1)
    shared = (float(covariance.sum()) - alone) / of_pairs if of_pairs else alone
    variances = max(float(covariance.mean()), 0.0), max(shared, 0.0)  # sums of rounded numbers
    whole, part = (StudentT(difference, sqrt(variance), float(arm.examples - 1)) for variance in variances)
    return whole, part


def _cases(
    ours: Float[ndarray, " pairs"], theirs: Float[ndarray, " pairs"], missing: str, *, same: bool
) -> Iterator[str]:
    """Yields remarks on tests that are missing or degenerate."""
    if np.ptp([ours, theirs]) == 0 and ours[0] in _EXTREMES:
        yield f"every cell scores {ours[0]:g}: at its floor or ceiling the metric cannot tell arms apart"
    elif same and np.array_equal(ours, theirs):
        yield "both arms score the same with every seed"
    elif same and len(ours) > 1 and not missing:
        yield "the difference is the same with every seed: the error over examples replaces that over seeds"
    if len(ours) == 1:
        yield "no verdict from one seed: how much seeds differ is unknown"
    elif missing and not (same and np.array_equal(ours, theirs)):
        yield f"no verdict: {missing}"
