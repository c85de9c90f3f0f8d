"""What task types inherit, and what columns refuse."""

import pytest

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Column, TaskType


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"holds": "wrods"}, r"'a': holds is 'wrods' \(did you mean 'words'\?\); expected text or .*number$"),
        ({"role": "inputs"}, "role is 'inputs' .*'input'"),
        ({"role": None}, "role is None; expected input or output"),
        ({"tokenizer": "both"}, "tokenizer is 'both'; expected .*source or target"),
    ],
)
def test_a_column_names_what_it_can_be(column, message) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Column(**{"name": "a", "holds": "text", "role": "input", **column})


@pytest.mark.parametrize(("holds", "value"), [("text", " two  words"), ("words", ["two", "words"])])
def test_a_question_is_what_the_column_holds(holds, value) -> None:
    class Asks(TaskType):
        columns = (Column("given", holds, "input", tokenizer="source"),)

        def encode(self, examples, tokenizers):
            return {}

    assert Asks().example_from_text(" two  words") == {"given": value}
