"""What task types inherit, and what columns refuse."""

import pytest

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Column, TaskType


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"role": "inputs"}, "'a': role is 'inputs', expected one of .'input', 'output'"),
        ({"role": None}, "role is None, expected one of"),
        ({"tokenizer": "both"}, "tokenizer is 'both', expected .*'source', 'target'"),
    ],
)
def test_a_column_names_what_it_can_be(column, message) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Column(**{"name": "a", "holds": "text", "role": "input", **column})


def test_a_question_is_the_first_input() -> None:
    class Asks(TaskType):
        columns = (Column("given", "words", "input", tokenizer="source"), Column("other", "text", "input"))

        def encode(self, examples, tokenizers):
            return {}

    assert Asks().example_from_text(" two  words") == {"given": " two  words"}
