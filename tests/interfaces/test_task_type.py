"""What task types inherit, and what columns refuse."""

import pytest

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.interfaces import Column, TaskType


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"role": "inputs"}, "'a': role 'inputs' is none of .'input', 'output'"),
        ({"role": None}, "role None is none of"),
        ({"tokenizer": "both"}, "tokenizer 'both' is none of .*'source', 'target'"),
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


@pytest.mark.parametrize(
    ("role", "method", "given"),
    [("output", "example_from_text", "a"), ("input", "references", {"text": "a"})],
)
def test_a_default_that_finds_no_column_names_the_method_to_define(role, method, given) -> None:
    class OneColumn(TaskType):
        columns = (Column("text", "text", role, tokenizer="source"),)

        def encode(self, examples, tokenizers):
            return {}

    with pytest.raises(RegistryError, match=f"OneColumn .*define `{method}`"):
        getattr(OneColumn(), method)(given)
