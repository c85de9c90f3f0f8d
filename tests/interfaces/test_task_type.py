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


def asking(*optional: bool) -> TaskType:
    class Asks(TaskType):
        columns = (
            *(
                Column(name, "text", "input", optional=each)
                for name, each in zip("abc", optional, strict=False)
            ),
            Column("answer", "text", "output"),
        )

        def encode(self, examples, tokenizers):
            return {}

    return Asks()


@pytest.mark.parametrize(
    ("optional", "text", "example"),
    [
        ((False,), " two\twords", {"a": " two\twords"}),
        ((False, False), "x\ty", {"a": "x", "b": "y"}),
        ((False, True, False), "x\ty", {"a": "x", "c": "y"}),
        ((False, True, False), "x\ty\tz", {"a": "x", "b": "y", "c": "z"}),
        ((True, True), "x", {"a": "x"}),
    ],
)
def test_a_question_has_its_inputs_between_tabs(optional, text, example) -> None:
    assert asking(*optional).example_from_text(text) == example


def test_a_question_without_all_inputs_names_them() -> None:
    with pytest.raises(ConfigurationError, match="'x' has 1 of 3 texts; give a, b, c"):
        asking(False, True, False).example_from_text("x")


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
