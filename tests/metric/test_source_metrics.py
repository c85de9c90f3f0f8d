"""Metrics of outputs beside their sources: length, and the repeats of couplets."""

import pytest
from datasets import Dataset

from plugformer.data.arrow import encoded_examples
from plugformer.data.encoding import EncodedSplit
from plugformer.evaluation.evaluator import arguments, measure
from plugformer.interfaces import Level, Prediction
from plugformer_plugins.architecture.encoder_only import EncoderOnly
from plugformer_plugins.metric.accuracy import ExactMatch, MirroredRepeats, SameLength
from plugformer_plugins.task_type.classification import Classification

FIRST = "上海自来水来自海上"


@pytest.mark.parametrize(
    ("source", "prediction", "mirrored"),
    [
        (FIRST, "山西悬空寺空悬西山", True),  # the traditional answer
        (FIRST, "山西悬空寺空悬西水", False),  # one repeat is missing
        (FIRST, "山西悬空山空悬西山", False),  # one is too many
        (FIRST, "山西悬空寺空悬西", False),
        (FIRST, FIRST, True),
        ("晚风摇树树还挺", "晨露润花花更红", True),
        ("晚风摇树树还挺", "晨露润花更红红", False),  # repeated at other places
        ("晚风摇", "晨露润", True),
        ("晚风摇", "晨露露", False),
        ("ab，ab，", "cd，cd，", True),
        ("aab", "xxyz", False),
        ("", "", True),
    ],
)
def test_mirrored_repeats(source: str, prediction: str, mirrored: bool) -> None:
    assert MirroredRepeats().hit(source, prediction) is mirrored
    places = [(one, other) for other in range(len(source)) for one in range(other)]
    by_definition = len(source) == len(prediction) and all(
        (source[one] == source[other]) == (prediction[one] == prediction[other]) for one, other in places
    )
    assert by_definition is mirrored


def test_the_share_of_mirrored_repeats_has_a_table() -> None:
    sources = ["aab", "aab", "abc", "abc", "abc"]
    found = measure(MirroredRepeats(), sources, ["xxy", "xyz", "xyz", "uvw", "x"], [[""]] * 5)[0]
    assert found["value"] == pytest.approx(3 / 5)
    assert found["table"]["columns"] == ["mirrored", "not"]
    assert found["table"]["rows"] == {"with a repeat": [1, 1], "without": [2, 1]}


def test_length_is_counted_in_characters() -> None:
    found = measure(SameLength(), ["晚风", "ab", "abc"], ["ab", "晚 风", ""], [["abc"]] * 3)[0]
    assert found["value"] == pytest.approx(1 / 3)
    assert 0 < found["low"] < found["value"] < found["high"] < 1


def test_every_answer_stands_beside_its_own_source() -> None:
    texts = ["a", "bb", "ccc", "dddd"]
    data = Dataset.from_dict({"text": texts, "encoded_input": [[4]] * len(texts)})
    split = EncodedSplit(*encoded_examples(data, Level.SEQUENCE), Classification(), EncoderOnly())
    split.references = lambda row: [f"reference {row}"]  # type: ignore[method-assign]
    metrics = {"length": SameLength(), "exact": ExactMatch()}
    answers = [Prediction("wxyz", 0.0), Prediction("u", 0.0)]
    given = arguments(metrics, split, [3, 1], answers)
    assert given["length"] == (["dddd", "bb"], ["wxyz", "u"], [["reference 3"], ["reference 1"]])
    assert measure(SameLength(), *given["length"])[0]["value"] == 0.5
    assert measure(ExactMatch(), *given["exact"])[1].tolist() == [[0.0], [0.0]]
