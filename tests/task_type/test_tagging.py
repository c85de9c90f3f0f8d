"""Tagging: which tokens are labelled, and what is refused."""

import pytest

from plugformer.errors import ExampleError
from plugformer.interfaces import IGNORED, UNKNOWN, Tokenizers
from plugformer_plugins.task_type.tagging import Tagging
from plugformer_testing.small_tasks import Pieces


@pytest.fixture
def tagging():
    task_type = Tagging()
    task_type.learned = ["DET", "NOUN"]
    return task_type


@pytest.fixture
def tokenizers():
    """Of pieces of three characters."""
    pieces = Pieces(["the foxtrot"])
    return Tokenizers(pieces, pieces)


def test_a_word_is_labelled_at_its_first_token(tagging, tokenizers):
    encoded = tagging.encode({"words": [["the", "foxtrot"]], "tags": [["DET", "NOUN"]]}, tokenizers)
    (spelled,) = (tokenizers.source.tokens(row) for row in encoded["input"])
    assert spelled == ["the", "fox", "tro", "t"]
    assert encoded["targets"] == [[0, 1, IGNORED, IGNORED]]


def test_a_word_without_tokens_is_unknown(tagging, tokenizers):
    encoded = tagging.encode({"words": [["", "the"]], "tags": [["DET", "NOUN"]]}, tokenizers)
    assert encoded["input"][0][0] == UNKNOWN
    assert encoded["targets"] == [[0, 1]]


def test_an_unknown_tag_says_whose_it_is(tagging, tokenizers):
    examples = {"words": [["the"], ["the"]], "tags": [["DET"], ["NUON"]]}
    with pytest.raises(ExampleError, match=r"unknown tag 'NUON' .*'NOUN'.*; the tags are") as raised:
        tagging.encode(examples, tokenizers)
    assert raised.value.row == 1


def test_questions_are_words_between_white_space(tagging):
    assert tagging.question(" the  foxtrot ") == {"words": ["the", "foxtrot"]}
