"""Verdicts and their correction, against Holm's method by hand."""

import numpy as np
import pytest

from plugformer.ablation.statistics.bootstrap import Bootstrap
from plugformer.ablation.statistics.contrast import Contrast
from plugformer.ablation.statistics.judgement import Verdict, judge
from plugformer.ablation.statistics.student import StudentT

GRAIN = 1999


def with_p(p, difference=0.1):
    """Returns a comparison whose examples have a given p, and whose seeds are surer of it."""
    beyond = round(p * (GRAIN + 1)) - 1
    deviations = np.where(np.arange(GRAIN) < beyond, 2.0, 0.0)
    examples = Bootstrap(difference, deviations, 100)
    return Contrast(
        difference, 5, StudentT(difference, 1e-9, 4.0), examples, StudentT(difference, 1e-9, 50.0)
    )


def test_holm_by_hand():
    """0.01 * 4, then 0.02 * 3, then 0.02 carried over 0.022 * 2, then 0.04: only the first is below 0.05."""
    found = judge([with_p(p) for p in (0.04, 0.01, 0.022, 0.02)], higher_is_better=True)
    assert [each.p for each in found] == pytest.approx([0.06, 0.04, 0.06, 0.06], abs=1e-9)
    assert [each.verdict is Verdict.BETTER for each in found] == [False, True, False, False]
    assert {each.level for each in found} == {1 - 0.05 / 4}


@pytest.mark.parametrize(
    ("difference", "higher", "verdict"),
    [(0.1, True, "better"), (-0.1, True, "worse"), (0.1, False, "worse"), (-0.1, False, "better")],
)
def test_direction(difference, higher, verdict):
    (found,) = judge([with_p(0.01, difference)], higher_is_better=higher)
    assert found.verdict == verdict


def test_comparisons_that_cannot_be_tested_count_among_the_planned_ones():
    alone = judge([with_p(0.03)], higher_is_better=True)
    beside = judge([with_p(0.03), Contrast(None, 0)], higher_is_better=True)
    assert (alone[0].verdict, beside[0].verdict) == (Verdict.BETTER, Verdict.NOT_DISTINGUISHABLE)
    assert (beside[1].verdict, beside[1].p) == (Verdict.NONE, None)


def test_a_single_comparison_needs_no_correction():
    (found,) = judge([with_p(0.03)], higher_is_better=True)
    assert found.p == pytest.approx(0.03)
    assert found.interval == found.plain_interval


def test_a_study_without_comparisons():
    assert judge([], higher_is_better=True) == []
