"""Every check of baselines catches a fault that it is there for."""

import random

import numpy as np
import pytest
from tests.testing.mutants import after, fault_test
from tests.testing.outcomes import failure

from plugformer.interfaces import Prediction
from plugformer.registry import Kind
from plugformer_plugins.baseline.alignment import IBMModel1
from plugformer_plugins.baseline.constant import Majority
from plugformer_plugins.baseline.ngrams import NGrams
from plugformer_plugins.baseline.tagging import FrequentTag


def drawing(self, found, *_):
    """Draws from the generator of the process."""
    random.random()  # noqa: S311
    return found


FAULTS = {
    "answers_are_outputs_of_the_task": after(
        "Counts", Majority, answer=lambda self, found, *_: [Prediction(1)] * len(found)
    ),
    "answers_are_repeatable": after("Draws", Majority, answer=drawing),
    "probabilities_are_of_tokens": after(
        "Doubles", NGrams, log_probabilities=lambda self, found, *_: [2 * row for row in found]
    ),
    "probabilities_look_at_nothing_later": after(
        "Looks", NGrams, log_probabilities=lambda self, found, *_: [row - row[-1] for row in found]
    ),
}
test_every_check_catches_a_fault = fault_test(FAULTS, Kind.BASELINE)

OTHERS = {
    "number of tags": after(
        "Shortens", FrequentTag, answer=lambda self, found, *_: [Prediction(one.output[:1]) for one in found]
    ),
    "'no candidate'": after(
        "Invents", IBMModel1, answer=lambda self, found, *_: [Prediction("no candidate")] * len(found)
    ),
    "number of answers": after("Forgets", Majority, answer=lambda self, found, *_: found[1:]),
    "expected 6 finite numbers": after(
        "Starts", NGrams, log_probabilities=lambda self, found, *_: [np.append(row, -1.0) for row in found]
    ),
}


@pytest.mark.parametrize("words", OTHERS)
def test_what_is_wrong_is_named(words):
    check = "probabilities_are_of_tokens" if "finite" in words else "answers_are_outputs_of_the_task"
    assert words in failure(OTHERS[words], check)
