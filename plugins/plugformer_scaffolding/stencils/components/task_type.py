"""A text that answers a text."""

from collections.abc import Mapping, Sequence
from typing import Any

from plugformer.interfaces import Column, Examples, Level, OutputType, TaskType, Tokenizers


class NewComponent(TaskType):
    """Continues a source with its target: translation, rewriting, summarization.

    Sequence to Sequence Learning with Neural Networks, Sutskever et al. 2014, https://arxiv.org/abs/1409.3215;
    section 3.3 reverses sources.

    Args:
        reverse_source: Whether the model reads the source's tokens from the last to the first.
    """

    level = Level.NEXT_TOKEN
    output_type = OutputType.TEXT

    def __init__(
        self,
        *,
        reverse_source: bool = False,
    ) -> None:
        self._step = -1 if reverse_source else 1

    @property
    def columns(self) -> tuple[Column, ...]:
        """A source and a target."""
        return (
            Column("source", "text", "input", tokenizer="source"),
            Column("target", "text", "output", tokenizer="target"),
        )

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of sources and, unless predicting, targets."""
        encoded = {"input": [ids[:: self._step] for ids in tokenizers.source.encode(examples["source"])]}
        if "target" in examples:
            encoded["output"] = tokenizers.target.encode(examples["target"])
        return encoded
