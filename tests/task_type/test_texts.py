"""What is predicted of one or several texts: columns, encoding, targets, questions."""

import pytest
from tests.pieces import Pieces

from plugformer.errors import ConfigurationError
from plugformer.interfaces import END, Tokenizers
from plugformer.registry import Kind

PREDICTED = {"classification": "label", "multi-label": "labels", "regression": "number"}
LEARNED = {
    "classification": ["bad", "good"],
    "multi-label": ["long", "new", "red"],
    "regression": {"mean": 3.0, "deviation": 2.0},
}
VALUES = {"classification": ["good"], "multi-label": [["red", "long"]], "regression": [4.0]}
TARGETS = {"classification": [1], "multi-label": [[1.0, 0.0, 1.0]], "regression": [0.5]}


@pytest.fixture(params=PREDICTED)
def name(request):
    return request.param


@pytest.fixture
def make(registry, name):
    def create(**options):
        task_type = registry.create(Kind.TASK_TYPE, name, **options)
        task_type.state = LEARNED[name]
        return task_type

    return create


@pytest.fixture
def tokenizers():
    """Of pieces of three characters."""
    pieces = Pieces(["the red fox"])
    return Tokenizers(pieces, pieces)


def test_one_text(make, name, tokenizers):
    task_type = make()
    assert [column.name for column in task_type.columns] == ["text", PREDICTED[name]]
    encoded = task_type.encode({"text": ["the fox"], PREDICTED[name]: VALUES[name]}, tokenizers)
    assert encoded == {"input": tokenizers.source.encode(["the fox"]), "targets": TARGETS[name]}
    assert task_type.encode({"text": ["the fox"]}, tokenizers).keys() == {"input"}
    assert task_type.example_from_text("a\tb") == {"text": "a\tb"}


def test_classes_of_single_texts_are_learned_with_fewer_tokens(make, name):
    assert make().token_dropout == (0.3 if name == "classification" else 0.0)
    assert make(inputs=["first", "second"]).token_dropout == 0.0


def test_several_texts_have_the_end_between_them(make, tokenizers):
    task_type = make(inputs=["first", "second", "third"])
    encoded = task_type.encode({"first": ["the"], "second": ["red"], "third": ["fox"]}, tokenizers)
    (the,), (red,), (fox,) = tokenizers.source.encode(["the", "red", "fox"])
    assert encoded == {"input": [[the, END, red, END, fox]]}
    assert task_type.example_from_text("a\tb\tc") == {"first": "a", "second": "b", "third": "c"}
    with pytest.raises(ConfigurationError, match=r"'a\\tb' has 2 of 3 texts; give first, second, third"):
        task_type.example_from_text("a\tb")


@pytest.mark.parametrize("number", [0.1, 4.7, 3.0])
@pytest.mark.parametrize("count", [1, 3, 100])
def test_equal_numbers_have_a_deviation_of_one(registry, number, count):
    learned = registry.create(Kind.TASK_TYPE, "regression").learn({"number": [number] * count})
    assert learned == {"mean": pytest.approx(number), "deviation": 1.0}


def test_all_references_of_a_text_are_right_answers(registry):
    task_type = registry.create(Kind.TASK_TYPE, "sequence-to-sequence")
    assert task_type.references({"target": "a", "references": ["a", "b"]}) == ["a", "b"]
    assert task_type.references({"target": "a", "references": []}) == ["a"]


def test_numbers_whose_deviation_is_rounded_to_zero_are_encoded(registry, tokenizers):
    task_type = registry.create(Kind.TASK_TYPE, "regression")
    task_type.state = task_type.learn({"number": [1e-320, 0.0, 2e-320]})
    assert task_type.encode({"text": ["the fox"], "number": [1e-320]}, tokenizers)["targets"] == [0.0]
