"""Student's t against scipy's own tests, and power against simulation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from plugformer_ablation.statistics import StudentT

ARM = np.array([0.91, 0.93, 0.90, 0.95, 0.92])
BASELINE = np.array([0.89, 0.92, 0.91, 0.90, 0.90])


def test_pairs_are_tested_as_scipy_tests_them():
    expected = stats.ttest_rel(ARM, BASELINE)
    found = StudentT.of(ARM - BASELINE)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.freedom == expected.df
    for level in (0.95, 0.9875):
        assert found.interval(level) == pytest.approx(tuple(expected.confidence_interval(level)))


def test_an_example_by_hand():
    """Differences 1, 2, 3: mean 2, deviation 1, error 1 / sqrt(3); t is 3.464 at 2 degrees of freedom."""
    found = StudentT.of(np.array([1.0, 2.0, 3.0]))
    assert (found.mean, found.error) == pytest.approx((2, 3**-0.5))
    assert found.p == pytest.approx(0.0742, abs=5e-5)  # t table
    assert found.interval(0.95) == pytest.approx((2 - 4.3027 * 3**-0.5, 2 + 4.3027 * 3**-0.5), abs=1e-4)


def test_the_margin_of_two_sources_by_hand():
    """t at 97.5 % is 2.776 with 4 degrees of freedom and 1.984 with 100."""
    found = StudentT(0.4, 0.3, 4.0, StudentT(0.4, 0.4, 100.0))
    margin = (0.4 - found.interval(0.95)[0], found.interval(0.95)[1] - 0.4)
    assert margin == pytest.approx([(0.3**2 * 2.776**2 + 0.4**2 * 1.984**2) ** 0.5] * 2, rel=1e-3)
    assert found.total_error == pytest.approx(0.5)


def test_two_sources_of_which_one_is_nothing_are_one():
    one = StudentT(0.4, 0.2, 4.0)
    found = replace(one, other=StudentT(0.4, 0.0, 99.0))
    assert found.p == pytest.approx(one.p)
    assert found.interval(0.9) == pytest.approx(one.interval(0.9))
    assert found.minimum_detectable_difference(0.05) == one.minimum_detectable_difference(0.05)


@pytest.mark.parametrize("difference", [0.0, 0.01, 0.4, 2.0, 1e6])
def test_p_is_where_the_interval_begins_to_exclude_zero(difference):
    found = StudentT(difference, 0.3, 1.0, StudentT(difference, 0.4, 100.0))
    assert 0 <= found.p <= 1
    for level in (0.01, 0.5, 0.95, 0.9995):
        assert (found.interval(level)[0] > 0) is (found.p < 1 - level)


@pytest.mark.parametrize(("seeds", "share"), [(2, 0.5), (3, 0.9), (5, 0.2), (5, 0.7), (10, 0.5)])
def test_two_sources_find_nothing_too_often_and_what_they_promise(seeds, share):
    """Of seeds, which are few, comes this share of the variance; the error over examples is known well."""
    alpha, count, generator = 0.0125, 20_000, np.random.default_rng(seeds)
    drawn = generator.normal(0, (seeds * share) ** 0.5, (count, seeds))
    differences = drawn.mean(1) + generator.normal(0, (1 - share) ** 0.5, count)
    errors = drawn.std(1, ddof=1) / seeds**0.5
    squares = (StudentT(0.0, 1.0, seeds - 1.0).margin(alpha), StudentT(0.0, 1.0, 999.0).margin(alpha))
    margins = np.hypot(errors * squares[0], (1 - share) ** 0.5 * squares[1])
    assert (abs(differences) > margins).mean() < 1.15 * alpha
    other = StudentT(0.0, (1 - share) ** 0.5, 999.0)
    promised = StudentT(0.0, share**0.5, seeds - 1.0, other).minimum_detectable_difference(alpha)
    assert (differences + promised > margins).mean() == pytest.approx(0.8, abs=0.03)


def test_nothing_varied():
    same = StudentT(0.0, 0.0, 4.0)
    assert (same.p, same.interval(0.95), same.minimum_detectable_difference(0.05)) == (1.0, (0.0, 0.0), 0.0)
    assert StudentT(0.5, 0.0, 4.0).p == 0.0
    nothing = replace(same, other=StudentT(0.0, 0.0, 99.0))
    assert (nothing.p, nothing.interval(0.95), nothing.total_error) == (1.0, (0.0, 0.0), 0.0)


@pytest.mark.parametrize(("seeds", "alpha"), [(2, 0.05), (3, 0.0125), (5, 0.05), (5, 0.00125), (10, 0.005)])
def test_the_minimum_detectable_difference_is_detected_four_times_in_five(seeds, alpha):
    deviation, generator = 0.3, np.random.default_rng(seeds)
    effect = StudentT(0.0, deviation / seeds**0.5, float(seeds - 1)).minimum_detectable_difference(alpha)
    differences = generator.normal(effect, deviation, (20_000, seeds))
    # Known and estimated deviation differ: power is defined for the known one.
    result = stats.ttest_1samp(differences, 0, axis=1)
    seen = ((result.pvalue < alpha) & (result.statistic > 0)).mean()
    assert seen == pytest.approx(0.8, abs=0.015)
