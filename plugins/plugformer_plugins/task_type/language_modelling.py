"""Language modelling: every token of a text is predicted from the tokens before it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from plugformer.interfaces import (
    Column,
    Example,
    Examples,
    Level,
    OutputType,
    TaskType,
    Tokenizers,
    View,
)
from plugformer_blocks import Within


class LanguageModelling(TaskType):
    """Predicts texts token by token, and continues prompts.

    Texts are joined, END after each, and cut into pieces of `model.max_length` tokens, or fewer as
    `data.length` says; each token is predicted once, from those before it in its piece and the last token
    of the piece before. In training, pieces begin at another place in every epoch.
    See https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf.

    Args:
        documents: `joined` if a token is predicted from all tokens before it in its piece, `apart` if only
            from those of its own text, whose positions then count from 0.
    """

    level = Level.NEXT_TOKEN
    packed = True
    baselines = ("ngrams",)
    output_type = OutputType.TOKENS
    columns = (Column("text", "text", "output", tokenizer="source"),)

    def __init__(
        self,
        *,
        documents: Annotated[
            Literal["joined", "apart"], Field(description="Whether texts in one piece see each other.")
        ] = "joined",
    ) -> None:
        self._apart = documents == "apart"

    def view(self, view: View) -> View:
        """Returns the view of the stack, within texts if these are apart."""
        return Within(view) if self._apart else view

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of texts, or of prompts."""
        return {"output": tokenizers.source.encode(examples["text"])}

    def example_from_text(self, text: str) -> Example:
        """Returns a prompt."""
        return {"text": text}
