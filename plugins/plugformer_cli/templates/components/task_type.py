"""A text that answers a text."""

from collections.abc import Mapping, Sequence
from typing import Any

from plugformer.interfaces import Column, Examples, Level, OutputType, TaskType, Tokenizers


class NewComponent(TaskType):
    """Continues a source with its target: translation, rewriting, summarization.

    Sequence to Sequence Learning with Neural Networks, Sutskever et al. 2014: https://arxiv.org/abs/1409.3215.
    """

    level = Level.NEXT_TOKEN
    output_type = OutputType.TEXT
    columns = (
        Column("source", "text", "input", tokenizer="source"),
        Column("target", "text", "output", tokenizer="target"),
    )

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of sources and, if there are any, of targets."""
        encoded = {"input": tokenizers.source.encode(examples["source"])}
        if "target" in examples:
            encoded["output"] = tokenizers.target.encode(examples["target"])
        return encoded
