"""What the interface of metrics itself promises, beside the contract that each component keeps."""

import numpy as np
import pytest

from plugformer.interfaces import OutputMetric


class Median(OutputMetric):
    """Of the outputs' lengths: no function of sums."""

    def statistics(self, predictions, references):
        return np.array([[float(len(prediction))] for prediction in predictions])

    def aggregate(self, statistics):
        return float(np.median(statistics))


def test_a_metric_may_be_no_function_of_sums():
    statistics = Median().statistics(["a" * length for length in range(1, 102)], [["a"]] * 101)
    low, high = Median().interval(statistics)
    # Of 101 values the median's 95 % interval runs from the 41st to the 61st, by the binomial distribution.
    assert low == pytest.approx(41, abs=3)
    assert high == pytest.approx(61, abs=3)


def test_the_bootstrap_of_a_mean_is_as_wide_as_theory_says():
    values = np.random.default_rng(5).normal(size=(400, 1))

    class Mean(Median):
        def aggregate(self, statistics):
            return float(statistics.mean())

    low, high = Mean().interval(values)
    assert (high - low) / 2 == pytest.approx(1.96 * values.std() / 400**0.5, rel=0.08)
    assert Mean().interval(values) == (low, high)
