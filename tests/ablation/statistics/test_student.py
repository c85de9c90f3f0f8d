"""Student's t against scipy's own tests, and power against simulation."""

import numpy as np
import pytest
from scipy import stats

from plugformer.ablation.statistics.student import StudentT, paired, together

ARM = np.array([0.91, 0.93, 0.90, 0.95, 0.92])
BASELINE = np.array([0.89, 0.92, 0.91, 0.90, 0.90])


def test_pairs_are_tested_as_scipy_tests_them():
    expected = stats.ttest_rel(ARM, BASELINE)
    found = paired(ARM - BASELINE)
    assert found.p == pytest.approx(expected.pvalue)
    assert found.freedom == expected.df
    for level in (0.95, 0.9875):
        assert found.interval(level) == pytest.approx(tuple(expected.confidence_interval(level)))


def test_an_example_by_hand():
    """Differences 1, 2, 3: mean 2, deviation 1, error 1 / sqrt(3); t is 3.464 at 2 degrees of freedom."""
    found = paired(np.array([1.0, 2.0, 3.0]))
    assert (found.difference, found.error) == pytest.approx((2, 3**-0.5))
    assert found.p == pytest.approx(0.0742, abs=5e-5)  # t table
    assert found.interval(0.95) == pytest.approx((2 - 4.3027 * 3**-0.5, 2 + 4.3027 * 3**-0.5), abs=1e-4)


def test_two_sources_make_the_test_of_welch():
    """The mean of a sample minus a known-to-be-zero one: scipy's unequal-variance test adds both errors."""
    expected = stats.ttest_ind_from_stats(0.4, 0.9, 5, 0.0, 3.0, 200, equal_var=False)
    found = together(StudentT(0.4, 0.9 / 5**0.5, 4.0), StudentT(0.4, 3.0 / 200**0.5, 199.0))
    assert found.p == pytest.approx(expected.pvalue)


def test_nothing_varied():
    same = StudentT(0.0, 0.0, 4.0)
    assert (same.p, same.interval(0.95), same.minimum_detectable_difference(0.05)) == (1.0, (0.0, 0.0), 0.0)
    assert StudentT(0.5, 0.0, 4.0).p == 0.0
    assert together(same, StudentT(0.0, 0.0, 99.0)).p == 1.0


@pytest.mark.parametrize(("seeds", "alpha"), [(2, 0.05), (3, 0.0125), (5, 0.05), (5, 0.00125), (10, 0.005)])
def test_the_minimum_detectable_difference_is_detected_four_times_in_five(seeds, alpha):
    deviation, generator = 0.3, np.random.default_rng(seeds)
    effect = StudentT(0.0, deviation / seeds**0.5, float(seeds - 1)).minimum_detectable_difference(alpha)
    differences = generator.normal(effect, deviation, (20_000, seeds))
    # Known and estimated deviation differ: power is defined for the known one.
    result = stats.ttest_1samp(differences, 0, axis=1)
    seen = ((result.pvalue < alpha) & (result.statistic > 0)).mean()
    assert seen == pytest.approx(0.8, abs=0.015)
