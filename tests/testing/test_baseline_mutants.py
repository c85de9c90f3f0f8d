"""Every check of baselines catches a fault that it is there for."""

import random

from tests.testing.mutants import after, fault_test

from plugformer.interfaces import Prediction
from plugformer.registry import Kind
from plugformer_plugins.baseline.constant import Majority
from plugformer_plugins.baseline.ngrams import NGrams


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
