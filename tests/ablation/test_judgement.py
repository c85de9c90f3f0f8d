"""Verdicts and their correction, against Bonferroni's by hand."""

import numpy as np
import pytest
from scipy import stats

from plugformer_ablation.comparison import Comparison, Verdict, judge
from plugformer_ablation.statistics import StudentT


def with_p(p, difference=0.1):
    """Returns a comparison that has a given p."""
    both = StudentT(difference, abs(difference) / float(stats.t.isf(p / 2, 9)), 9.0)
    return Comparison(difference, 5, both, both, both)


def test_the_correction_by_hand():
    """0.05 / 4 is 0.0125: Holm's method would have found 0.013 as well, beside an interval with 0 in it."""
    found = judge([with_p(p) for p in (0.04, 0.01, 0.3, 0.013)], higher_is_better=True)
    assert [each["p"]["corrected"] for each in found] == pytest.approx([0.16, 0.04, 1.0, 0.052])
    assert [each["verdict"] == Verdict.BETTER for each in found] == [False, True, False, False]
    assert {each["level"] for each in found} == {1 - 0.05 / 4}


def test_verdict_p_and_interval_never_contradict_each_other():
    generator = np.random.default_rng(1)
    for _ in range(100):
        drawn = [
            with_p(p, difference) for p, difference in generator.uniform((0, -1), (0.06, 1), (5, 2)).tolist()
        ]
        for each in judge(drawn, higher_is_better=True):
            different = each["verdict"] in (Verdict.BETTER, Verdict.WORSE)
            assert different is (each["low"] > 0 or each["high"] < 0) is (each["p"]["corrected"] <= 0.05)
            assert different or each["verdict"] == Verdict.NOT_DISTINGUISHABLE


@pytest.mark.parametrize(
    ("difference", "higher", "verdict"),
    [(0.1, True, "better"), (-0.1, True, "worse"), (0.1, False, "worse"), (-0.1, False, "better")],
)
def test_direction(difference, higher, verdict):
    (found,) = judge([with_p(0.01, difference)], higher_is_better=higher)
    assert found["verdict"] == verdict


def test_comparisons_that_cannot_be_tested_count_among_the_planned_ones():
    alone = judge([with_p(0.03)], higher_is_better=True)
    beside = judge([with_p(0.03), Comparison(None, 0)], higher_is_better=True)
    assert (alone[0]["verdict"], beside[0]["verdict"]) == (Verdict.BETTER, Verdict.NOT_DISTINGUISHABLE)
    assert (beside[1]["verdict"], beside[1]["p"]["corrected"]) == (Verdict.NONE, None)


def test_a_single_comparison_needs_no_correction():
    (found,) = judge([with_p(0.03)], higher_is_better=True)
    assert found["p"] == {"single": pytest.approx(0.03), "corrected": found["p"]["single"]}
    assert {end: found[end] for end in ("low", "high")} == found["interval_95"]


def test_a_study_without_comparisons():
    assert judge([], higher_is_better=True) == []
