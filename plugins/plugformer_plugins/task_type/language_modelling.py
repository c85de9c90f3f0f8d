"""Language modelling: texts, of which every token is predicted from those before it."""

from collections.abc import Mapping, Sequence
from typing import Any

from plugformer.interfaces import Column, Example, Examples, Level, OutputType, TaskType, Tokenizers


class LanguageModelling(TaskType):
    """Predicts texts token by token, and continues prompts.

    Texts are joined, END behind each, and cut into pieces of `model.max_length` tokens; each token is
    predicted once, from those before it in its piece and the last token of the piece before. In training,
    pieces begin at another place in every epoch.
    """

    level = Level.NEXT_TOKEN
    packed = True
    output_type = OutputType.TOKENS
    columns = (Column("text", "text", "output", tokenizer="source"),)

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of texts, or of prompts."""
        return {"output": tokenizers.source.encode(examples["text"])}

    def example_from_text(self, text: str) -> Example:
        """Returns a prompt."""
        return {"text": text}
