"""Plain text: what is an example, and what is cut off the ends."""

import pytest
from tests.columns import with_kinds

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Column
from plugformer_plugins.data.text import PlainText

TEXT = with_kinds([Column("text", "text", "output", tokenizer="source")])


@pytest.fixture
def read(tmp_path):
    def read(text, columns=TEXT, **options):
        file = tmp_path / "train.txt"
        file.write_text(text, encoding="utf-8")
        splits = PlainText(files={"train": file}, **options).load(columns)
        return {name: list(split["text"]) for name, split in splits.items()}

    return read


@pytest.mark.parametrize(
    ("examples", "expected"),
    [
        ("file", ["a\nb\n\n\nc\n"]),
        ("paragraph", ["a\nb", "c"]),
        ("line", ["a", "b", "c"]),
    ],
)
def test_examples(read, examples, expected):
    assert read("a\nb\n\n\nc\n", examples=examples) == {"train": expected}


def test_ends_are_shares_of_the_characters(read):
    found = read("0123456789" * 10 + "\n", ends={"validation": 0.1, "test": 0.2})
    assert {name: len("".join(texts)) for name, texts in found.items()} == pytest.approx(
        {"train": 71, "validation": 10, "test": 21}, abs=2
    )
    joined = "".join(text.rstrip("\n") for text in (*found["train"], *found["validation"], *found["test"]))
    assert joined == "0123456789" * 10


def test_ends_that_leave_nothing_are_refused(read):
    with pytest.raises(ConfigurationError, match="the shares leave nothing for training"):
        read("a\n", ends={"validation": 0.5, "test": 0.5})


def test_white_space_is_no_text(read):
    with pytest.raises(DataError, match="has nothing but white space"):
        read(" \n\n")
