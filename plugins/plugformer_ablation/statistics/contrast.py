"""Two arms side by side: the tests that their cells allow, and what is to be said where there are none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan, sqrt

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer_ablation.statistics.student import StudentT, TwoErrors, paired

_EXTREMES = (0.0, 1.0, 100.0)
"""Where metrics of this field have their floor or ceiling: shares, perplexity, scores in percent."""

_ROUNDING = 1e-12
"""Relative differences below this are the rounding of sums, not differences."""


@dataclass(frozen=True)
class Trials:
    """What one arm scored.

    Attributes:
        scores: By seed; cells that failed are missing.
        resampled: By seed, the scores on test sets drawn with replacement, the same ones for every cell.
            Empty where there are no statistics of examples.
        examples: Number of test examples.
    """

    scores: Mapping[int, float]
    resampled: Mapping[int, Float[ndarray, " resamples"]] = field(default_factory=dict)
    examples: int = 0


@dataclass(frozen=True)
class Contrast:
    """An arm minus its baseline.

    Attributes:
        difference: The mean over the seeds that both have; None without any.
        pairs: How many seeds these are.
        seeds: The paired t test over seeds; None with less than two, or if all differences are the same.
        examples: The difference with its error over test examples; None if they cannot be paired.
        both: The difference with its errors over seeds and examples, by which it is judged; None if one of
            them is unknown.
        identical: Whether the arms scored the same with every seed.
        notes: What keeps this from being an ordinary comparison.
    """

    difference: float | None
    pairs: int
    seeds: StudentT | None = None
    examples: StudentT | None = None
    both: StudentT | TwoErrors | None = None
    identical: bool = False
    notes: tuple[str, ...] = ()

    @property
    def decidable(self) -> bool:
        """Whether the difference can be tested over seeds and over examples."""
        return self.identical or self.both is not None

    @property
    def p(self) -> float | None:
        """Of the difference, over seeds and examples; None if it cannot be tested."""
        if self.identical:
            return 1.0
        return None if self.both is None else self.both.p

    @property
    def effect_size(self) -> float | None:
        """The mean difference over the deviation of the paired differences: Cohen's d_z.

        Lakens (2013), equation 7, https://doi.org/10.3389/fpsyg.2013.00863. It depends on how alike the pairs
        are, and is not to be compared with effect sizes of unpaired studies.
        """
        if self.seeds is None:
            return None
        return self.seeds.difference / (self.seeds.error * sqrt(self.pairs))

    def interval(self, level: float) -> tuple[float, float] | None:
        """Returns the interval over seeds and examples, or over what of them there is.

        It excludes 0 exactly where `p` is below 1 - level. None if there is none, or the arms are identical.
        """
        known = self.both or self.seeds or self.examples
        return None if self.identical or known is None else known.interval(level)

    def minimum_detectable_difference(self, alpha: float) -> float | None:
        """Returns the smallest true difference that is found with a power of 80 %.

        None if the difference cannot be tested, or if nothing varied from which to tell.
        """
        if self.both is None or self.identical:
            return None
        return self.both.minimum_detectable_difference(alpha) or None


def contrast(arm: Trials, baseline: Trials, seeds: Sequence[int]) -> Contrast:
    """Compares an arm with its baseline, pair by pair of the same seed.

    Args:
        arm: What the arm scored.
        baseline: What it is compared with.
        seeds: The study's; those without a finite score in both arms are left out, and counted in the notes.
    """
    common = [seed for seed in seeds if _scored(arm, seed) and _scored(baseline, seed)]
    notes = []
    if len(common) < len(seeds):
        notes.append(f"{len(common)} of {len(seeds)} seeds have a score in both arms")
    if not common:
        return Contrast(None, 0, notes=(*notes, "no verdict without a pair of scores"))
    ours, theirs = (np.array([each.scores[seed] for seed in common]) for each in (arm, baseline))
    difference = float((ours - theirs).mean())
    same = bool(np.ptp(ours - theirs) <= _ROUNDING * np.abs([ours, theirs]).max())
    over_seeds = None if same else paired(ours - theirs)
    missing = _unpaired(arm, baseline, common)
    over_examples: StudentT | None = None
    both: StudentT | TwoErrors | None = None
    if not missing:
        over_examples, shared = _over_examples(arm, baseline, common, difference)
        if over_seeds is not None:
            both = TwoErrors(over_seeds, shared)
        elif len(common) > 1:
            # A few equal differences do not show that seeds never matter: their number limits what is known.
            both = StudentT(difference, over_examples.error, float(len(common) - 1))
    if both is not None and both.error == 0 and difference:
        notes.append("neither seeds nor test examples varied: the error of the difference is unknown")
    return Contrast(
        difference,
        len(common),
        over_seeds,
        over_examples,
        both,
        identical=same and len(common) > 1 and bool(abs(difference) <= _ROUNDING * np.abs(theirs).max()),
        notes=(*notes, *_cases(ours, theirs, missing, same=same)),
    )


def _scored(trials: Trials, seed: int) -> bool:
    return isfinite(trials.scores.get(seed, nan))


def _unpaired(arm: Trials, baseline: Trials, seeds: Sequence[int]) -> str:
    """Returns why there is no test over examples; nothing if there is one."""
    complete = all(seed in each.resampled for seed in seeds for each in (arm, baseline))
    if not complete or arm.examples != baseline.examples or arm.examples < 2:
        return "there are no statistics of at least two test examples that both arms share"
    if not all(np.isfinite(each.resampled[seed]).all() for seed in seeds for each in (arm, baseline)):
        return "on some resampled test sets the metric gives no finite number"
    return ""


def _over_examples(
    arm: Trials, baseline: Trials, seeds: Sequence[int], difference: float
) -> tuple[StudentT, StudentT]:
    """Returns the difference with its error over examples, and with the part of it that seeds share.

    What examples do to each seed apart is in the variance between seeds already. What they do to all seeds
    alike is the covariance of the seeds' differences over test sets: Obuchowski and Rockette (1995), of
    readers and cases, https://doi.org/10.1080/03610919508813243.
    """
    moved = np.array([arm.resampled[seed] - baseline.resampled[seed] for seed in seeds])
    covariance = np.atleast_2d(np.cov(moved))
    alone = float(np.trace(covariance))
    of_pairs = len(seeds) * (len(seeds) - 1)
    shared = (float(covariance.sum()) - alone) / of_pairs if of_pairs else alone
    variances = float(covariance.mean()), max(shared, 0.0)
    whole, part = (StudentT(difference, sqrt(each), float(arm.examples - 1)) for each in variances)
    return whole, part


def _cases(
    ours: Float[ndarray, " pairs"], theirs: Float[ndarray, " pairs"], missing: str, *, same: bool
) -> Iterator[str]:
    """Yields what is to be said where a test is missing or has nothing to work on."""
    if np.ptp([ours, theirs]) == 0 and ours[0] in _EXTREMES:
        yield f"every cell scores {ours[0]:g}: at its floor or ceiling the metric cannot tell arms apart"
    elif same and np.array_equal(ours, theirs):
        yield "both arms score the same with every seed"
    elif same and len(ours) > 1 and not missing:
        yield "the difference is the same with every seed: the error over examples stands in for theirs"
    if len(ours) == 1:
        yield "no verdict from one seed: how much seeds differ is unknown"
    elif missing and not (same and np.array_equal(ours, theirs)):
        yield f"no verdict: {missing}"
