"""Sequence-to-sequence: a text that answers a text."""

from collections.abc import Mapping, Sequence
from typing import Any

from plugformer.interfaces import Column, Example, Examples, Level, OutputType, TaskType, Tokenizers, Value


class SequenceToSequence(TaskType):
    """Continues a source with its target: translation, rewriting, summarization.

    Examples may have several `references`, which metrics then compare with in place of the target.
    """

    level = Level.NEXT_TOKEN
    output_type = OutputType.TEXT
    columns = (
        Column("source", "text", "input", tokenizer="source"),
        Column("target", "text", "output", tokenizer="target"),
        Column("references", "texts", "output", optional=True),
    )

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of sources and targets."""
        encoded = {"input": tokenizers.source.encode(examples["source"])}
        if "target" in examples:
            encoded["output"] = tokenizers.target.encode(examples["target"])
        return encoded

    def references(self, example: Example) -> list[Value]:
        """Returns the references of an example, or its target."""
        return example.get("references") or [example["target"]]
