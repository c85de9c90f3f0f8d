"""Verdicts on all comparisons of a study, corrected for their number."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from plugformer.ablation.statistics.contrast import Contrast

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
    """A comparison with its verdict.

    Attributes:
        contrast: The comparison.
        verdict: What is to be concluded.
        p: The largest p of the contrast's tests, corrected by Holm's method; None without a verdict.
        level: Of `interval`: so high that all intervals of the study hold together with 95 %.
        interval: Of the difference, corrected; None if there is nothing to compute it from.
        plain_interval: The same at 95 %, as if this were the study's only comparison.
        detectable: The smallest difference that the study finds with a power of 80 % at the corrected level.
    """

    contrast: Contrast
    verdict: Verdict
    p: float | None
    level: float
    interval: tuple[float, float] | None
    plain_interval: tuple[float, float] | None
    detectable: float | None


def judge(contrasts: Sequence[Contrast], *, higher_is_better: bool, alpha: float = ALPHA) -> list[Judgement]:
    """Judges all comparisons of a study together.

    The method is Holm's (1979), https://www.jstor.org/stable/4615733. Comparisons that cannot be tested count
    among those planned: a failed cell does not make it easier for the others.

    Args:
        contrasts: All that the study has planned.
        higher_is_better: The direction of the metric.
        alpha: Significance level of the whole study.
    """
    if not contrasts:
        return []
    from statsmodels.stats.multitest import multipletests

    planned = [1.0 if contrast.p is None else contrast.p for contrast in contrasts]
    found, corrected, _, _ = multipletests(planned, alpha, method="holm")
    single = alpha / len(contrasts)
    return [
        Judgement(
            contrast,
            _verdict(contrast, different=bool(different), higher_is_better=higher_is_better),
            None if contrast.p is None else float(p),
            1 - single,
            contrast.interval(1 - single),
            contrast.interval(1 - alpha),
            contrast.detectable(single),
        )
        for contrast, different, p in zip(contrasts, found, corrected, strict=True)
    ]


def _verdict(contrast: Contrast, *, different: bool, higher_is_better: bool) -> Verdict:
    if contrast.p is None:
        return Verdict.NONE
    if not different or contrast.difference is None:
        return Verdict.NOT_DISTINGUISHABLE
    return Verdict.BETTER if (contrast.difference > 0) is higher_is_better else Verdict.WORSE
