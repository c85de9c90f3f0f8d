"""Macro F1 and the confusion matrix, by hand."""

import pytest

from plugformer.evaluation.evaluator import measure
from plugformer_plugins.metric.accuracy import ConfusionMatrix
from plugformer_plugins.metric.f1 import MacroF1

# Right:     a a a a b b c
# Predicted: a a a b b c b
PREDICTIONS = ["a", "a", "a", "b", "b", "c", "b"]
RIGHT = [[label] for label in "aaaabbc"]


def test_macro_f1():
    """Of a: precision 3/3, recall 3/4; of b: 1/3, 1/2; of c: 0/1, 0/1."""
    assert measure(MacroF1(), PREDICTIONS, RIGHT)[0]["value"] == pytest.approx((6 / 7 + 2 / 5 + 0) / 3)


def test_a_class_that_is_only_predicted_counts():
    assert measure(MacroF1(), ["a", "z"], [["a"], ["a"]])[0]["value"] == pytest.approx((2 / 3 + 0) / 2)


def test_any_reference_is_right():
    assert measure(MacroF1(), ["a", "b"], [["b", "a"], ["b"]])[0]["value"] == 1


def test_the_interval_holds_the_score_of_rare_classes():
    """With four examples of each class, resamples that miss some of them score lower than the whole."""
    right = [[f"class {number // 4}"] for number in range(2000)]
    predictions = [right[number - 4 * (number % 4 == 0)][0] for number in range(2000)]
    found = measure(MacroF1(), predictions, right)[0]
    assert found["low"] < found["value"] == found["high"]


def test_the_confusion_matrix():
    found = measure(ConfusionMatrix(), PREDICTIONS, RIGHT)[0]
    assert found["value"] == pytest.approx(4 / 7)
    assert found["low"] < 4 / 7 < found["high"]
    assert found["table"] == {
        "title": "right classes in rows, predicted ones in columns",
        "columns": ["a", "b", "c"],
        "rows": {"a": [3, 1, 0], "b": [0, 1, 1], "c": [0, 1, 0]},
    }


def test_a_table_of_many_classes_has_those_with_most_mistakes():
    """Ten thousand classes made a table of a hundred million numbers."""
    right = [[f"{number:04}"] for number in range(3000)]
    predictions = [answers[0] for answers in right]
    predictions[2500:] = ["0007"] * 500
    table = ConfusionMatrix().table(predictions, right)
    assert len(table["columns"]) == len(table["rows"]) == 100
    assert table["columns"][0] == "0007"
    assert set(table["columns"][1:]) < {answers[0] for answers in right[2500:]}
    assert "3,000" in table["title"]
    assert table["rows"]["2500"][0] == 1
