"""Inputs of one or several texts, which a model reads one after the other."""

from collections.abc import Sequence

from plugformer.errors import ConfigurationError
from plugformer.interfaces import END, Column, Example, Examples, Tokenizers


def text_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Returns the columns of the texts."""
    return tuple(Column(name, "text", "input", tokenizer="source") for name in names)


def encode_texts(examples: Examples, names: Sequence[str], tokenizers: Tokenizers) -> list[list[int]]:
    """Returns the tokens of each example's texts, with END between one text and the next."""
    first, *others = (tokenizers.source.encode(examples[name]) for name in names)
    if not others:
        return first
    return [
        [*start, *(token for each in rest for token in (END, *each))]
        for start, *rest in zip(first, *others, strict=True)
    ]


def split_question(text: str, names: Sequence[str]) -> Example:
    """Returns the texts of a question by column; of several, they stand between tabs.

    Raises:
        ConfigurationError: There are more or fewer than columns.
    """
    parts = text.split("\t") if len(names) > 1 else [text]
    if len(parts) != len(names):
        raise ConfigurationError(
            f"{text[:40]!r} has {len(parts)} of {len(names)} texts; give {', '.join(names)} with tabs between"
        )
    return dict(zip(names, parts, strict=True))
