"""Metrics of ranked answers, by hand."""

import pytest

from plugformer_plugins.metric.ranking import MeanReciprocalRank, RecallAtK

RANKED = [["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"], ["c", "b"], []]
RIGHT = [["a"]] * 4 + [["a", "c"]]
"""The right answer is first, second, third, and twice not among them."""


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        (RecallAtK(k=1), 1 / 5),
        (RecallAtK(k=2), 2 / 5),
        (RecallAtK(), 3 / 5),
        (MeanReciprocalRank(k=2), (1 + 1 / 2) / 5),
        (MeanReciprocalRank(), (1 + 1 / 2 + 1 / 3) / 5),
    ],
)
def test_the_place_of_the_first_right_answer_counts(metric, score):
    assert metric.aggregate(metric.statistics(RANKED, RIGHT)) == pytest.approx(score)


def test_the_first_of_several_right_answers_counts():
    statistics = MeanReciprocalRank().statistics([["x", "b", "a"]], [["a", "b"]])
    assert statistics.tolist() == [[1 / 2]]
