"""N-grams, compared with the formula of Witten and Bell written out."""

from collections import Counter

import numpy as np
import pytest

from plugformer_plugins.baseline.ngrams import NGrams

VOCABULARY, ORDER = 7, 3


def written_out(training, sequence, place):
    """Returns the probability of a token, by counting in every sequence again."""
    likely = 1 / VOCABULARY
    for length in range(ORDER):
        if length > place:
            break
        context = sequence[place - length : place]
        following = Counter(
            row[at]
            for row in training
            for at in range(max(length, 1), len(row))
            if row[at - length : at] == context
        )
        total, different = following.total(), len(following)
        if total:
            likely = (following[sequence[place]] + different * likely) / (total + different)
    return likely


def test_probabilities_are_those_of_the_formula():
    generator = np.random.default_rng(2)
    rows = [
        [1, *generator.choice(5, generator.integers(2, 9), p=[0.4, 0.3, 0.1, 0.1, 0.1]) + 2]
        for _ in range(30)
    ]
    training, others = [[int(token) for token in row] for row in rows[:20]], rows[20:]
    baseline = NGrams(order=ORDER)
    baseline.fit([np.array(row) for row in training], VOCABULARY)
    found = baseline.log_probabilities([np.array(row) for row in others])
    for row, likely in zip(others, found, strict=True):
        tokens = [int(token) for token in row]
        expected = [written_out(training, tokens, place) for place in range(1, len(tokens))]
        assert np.exp(likely).tolist() == pytest.approx(expected)
