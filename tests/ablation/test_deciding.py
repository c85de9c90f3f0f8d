"""What would decide a comparison, by its definition, by tables of Student's t, and by simulation."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import t as student

from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.looks import Look, would_decide
from plugformer_ablation.judging.statistics import StudentT
from plugformer_ablation.reporting.sentences import explanation, sentences

LOOK = Look(5, 0.05, 0.10)


def difference(mean, error, shared=0.0, examples=1000):
    return StudentT(mean, error, 4.0, StudentT(mean, shared, examples - 1.0))


def margin(seeds, error, alpha):
    return error * sqrt(5 / seeds) * student.isf(alpha / 2, seeds - 1)


@pytest.mark.parametrize(("mean", "error"), [(1.0, 0.5), (-1.0, 0.9), (0.2, 0.5)])
def test_the_smallest_number_of_seeds_excludes_0_at_half_of_the_level(mean, error):
    needed = would_decide(difference(mean, error), LOOK, None)["seeds"]
    assert margin(needed, error, 0.025) < abs(mean) <= margin(needed - 1, error, 0.025)


def test_arms_that_differ_by_less_than_matters_become_equivalent_first():
    needed = would_decide(difference(0.1, 0.5), LOOK, 1.0)["seeds"]
    assert margin(needed, 0.5, 0.05) < 0.9 <= margin(needed - 1, 0.5, 0.05)
    assert would_decide(difference(0.1, 0.5), LOOK, None)["seeds"] > 10 * needed


def test_where_examples_are_too_few_a_larger_test_set_is_needed():
    needed = would_decide(difference(1.0, 0.5, shared=0.6, examples=100), LOOK, None)
    assert needed["seeds"] is None
    share = 0.6 * student.isf(0.0125, 99)  # of the difference, which is 1
    assert needed["examples"] == pytest.approx(100 * share**2, abs=1)


@pytest.mark.parametrize(
    "test", [None, difference(0.0, 0.5), difference(0.001, 0.5), StudentT(1.0, 2.0, 4.0)]
)
def test_nothing_is_said_where_nothing_can_be_told(test):
    assert would_decide(test, LOOK, None) is None


def test_the_true_difference_is_found_about_every_second_time():
    needed = would_decide(difference(0.5, 0.4), LOOK, None)["seeds"]
    draws = np.random.default_rng(0).normal(0.5, 0.4 * sqrt(5), (4000, needed))
    found = np.mean([StudentT.of(each).p < 0.025 for each in draws])
    assert 0.42 < found < 0.58


def test_a_report_tells_what_would_decide_and_what_that_assumes(made_up):
    found = find(made_up({"baseline": 0.9, "other": 0.895}, seeds=3, examples=500))
    needed = found.comparisons[0]["would_decide"]["seeds"]
    assert needed > 3
    assert sentences(found)[0].endswith(f"if the difference stayed as it is, {needed} seeds would decide.")
    assert any("no promise" in line for line in explanation(found))
    decided = find(made_up({"baseline": 0.9, "other": 0.5}, seeds=3, examples=500))
    assert decided.comparisons[0]["would_decide"] is None
    assert not any("no promise" in line for line in explanation(decided))
