"""Verdicts on all comparisons of a study, corrected for their number."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from plugformer_ablation.statistics.contrast import Contrast

ALPHA = 0.05
"""The chance that a study whose arms are all alike reports any difference."""


class Verdict(StrEnum):
    """What a study says about an arm against its baseline."""

    BETTER = "better"
    WORSE = "worse"
    NOT_DISTINGUISHABLE = "not distinguishable"
    NONE = "no verdict"


@dataclass(frozen=True)
class Judgement:
    """A comparison with its verdict, which is that of its interval: a difference is one if 0 is outside.

    Attributes:
        contrast: The comparison.
        verdict: What is to be concluded.
        p: Times the number of comparisons; below `ALPHA` exactly where `interval` excludes 0. None without
            a verdict.
        level: Of `interval`: so high that all intervals of the study hold together with 95 %.
        interval: Of the difference, corrected; None if there is nothing to compute it from.
        plain_interval: The same at 95 %, as if this were the study's only comparison.
        minimum_detectable_difference: The smallest difference that the study finds with a power of 80 % at
            the corrected level.
    """

    contrast: Contrast
    verdict: Verdict
    p: float | None
    level: float
    interval: tuple[float, float] | None
    plain_interval: tuple[float, float] | None
    minimum_detectable_difference: float | None


def judge(contrasts: Sequence[Contrast], *, higher_is_better: bool, alpha: float = ALPHA) -> list[Judgement]:
    """Judges all comparisons of a study together.

    One correction, Bonferroni's, is made for p, intervals and verdicts: Dunn (1961),
    https://doi.org/10.1080/01621459.1961.10482090. Comparisons that cannot be tested count among those
    planned: a failed cell does not make it easier for the others.

    Args:
        contrasts: All that the study has planned.
        higher_is_better: The direction of the metric.
        alpha: Significance level of the whole study.
    """
    single = alpha / max(len(contrasts), 1)
    return [
        Judgement(
            contrast,
            _verdict(contrast, contrast.interval(1 - single), higher_is_better=higher_is_better),
            None if contrast.p is None else min(1.0, contrast.p * len(contrasts)),
            1 - single,
            contrast.interval(1 - single),
            contrast.interval(1 - alpha),
            contrast.minimum_detectable_difference(single),
        )
        for contrast in contrasts
    ]


def _verdict(contrast: Contrast, interval: tuple[float, float] | None, *, higher_is_better: bool) -> Verdict:
    if not contrast.decidable:
        return Verdict.NONE
    low, high = interval or (0.0, 0.0)
    if low <= 0 <= high:
        return Verdict.NOT_DISTINGUISHABLE
    return Verdict.BETTER if (low > 0) == higher_is_better else Verdict.WORSE
