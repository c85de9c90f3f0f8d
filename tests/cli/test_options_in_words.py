"""Types and ranges of options in words, and `plugformer info` of a component."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field, TypeAdapter

from plugformer_cli.info import describe_options, in_words


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


class Part:
    """A part.

    Args:
        size: How large.
    """

    def __init__(self, context: object, *, size: Annotated[int, Field(gt=0)], flat: bool = False) -> None:
        self.size, self.flat = size, flat


def test_options_are_the_keyword_only_parameters():
    size, flat = describe_options(Part)
    assert (size.name, size.type, size.required, size.description) == (
        "size",
        "integer > 0",
        True,
        "How large.",
    )
    assert (flat.name, flat.required, flat.default) == ("flat", False, False)


def test_info_shows_source_class_and_options(run):
    out = run("info", "schedule/warmup_cosine").out
    assert out.startswith("schedule/warmup_cosine\n")
    assert "class         plugformer_plugins.schedule.warmup:WarmupCosine" in out
    assert "warmup_steps: integer >= " in out


def test_info_as_json_has_the_record_of_list_and_the_options(run):
    [listed] = [
        record
        for record in json.loads(run("list", "schedule", "--json").out)
        if record["name"] == "warmup_cosine"
    ]
    shown = json.loads(run("info", "schedule/warmup_cosine", "--json").out)
    assert listed.items() <= shown.items()
    option = next(option for option in shown["options"] if option["name"] == "warmup_steps")
    assert set(option) == {"name", "type", "required", "default", "description"}
