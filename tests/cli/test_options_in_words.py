"""Types and ranges of options in words, and `plugformer info` of a component."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, TypeAdapter

from plugformer_cli.info import in_words


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "integer"),
        (bool, "true | false"),
        (str, "text"),
        (Path, "text"),
        (Annotated[int, Field(ge=1)] | None, "integer >= 1 or null"),
        (Annotated[float, Field(ge=0, lt=1)], "number >= 0, < 1"),
        (Literal["a", "b"], "a | b"),
        (Literal["a"], "a"),
        (Sequence[str], "list of text"),
        (tuple[float, float], "list of 2: number"),
        (tuple[int, str], "list of 2: integer; text"),
        (dict[str, int], "mapping"),
    ],
)
def test_a_type_in_words(annotation, words):
    assert in_words(TypeAdapter(annotation).json_schema()) == words
