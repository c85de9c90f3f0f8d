"""Perplexity and token accuracy: over all targets together, not a mean over examples."""

import numpy as np
import pytest

from plugformer.evaluation.evaluator import measure
from plugformer_plugins.metric.likelihood import Perplexity, TokenAccuracy

# One target with probability 1/2, three with 1/8 each: the geometric mean is (1/2 * 1/512) ** (1/4).
LIKELIHOODS = (np.log([1 / 2, 1 / 512]), np.array([1, 3]), np.array([1, 1]))


def test_perplexity():
    found = measure(Perplexity(), *LIKELIHOODS)[0]
    assert found["value"] == pytest.approx(1024**0.25)
    assert found["low"] == pytest.approx(2)  # the first example twice
    assert found["high"] == pytest.approx(8)


def test_token_accuracy():
    found = measure(TokenAccuracy(), *LIKELIHOODS)[0]
    assert found == pytest.approx({"value": 2 / 4, "low": 1 / 3, "high": 1.0})
