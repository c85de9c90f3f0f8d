"""Masked language modelling: hidden tokens of a text, predicted from those around them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from plugformer.interfaces import (
    UNKNOWN,
    Batch,
    Column,
    Encoded,
    Example,
    Examples,
    Level,
    Model,
    OutputType,
    Prediction,
    Ragged,
    TaskType,
    Tokenizer,
    Tokenizers,
)
from plugformer_plugins.task_type.labels import refuse_alternatives

MASK = "[MASK]"
"""The text of a question at a token that is to be predicted."""


class MaskedLanguageModelling(TaskType):
    """Predicts masked tokens of a text from the tokens around them.

    Predicts a share of a text's tokens, drawn again in every epoch and always the same in evaluation.

    Of those drawn, 80 % are replaced by UNKNOWN, which is the mask, 10 % by another token of the text, and
    10 % stay. Devlin et al. 2019, section 3.1, https://arxiv.org/abs/1810.04805, draw the second from the
    whole vocabulary, and have a mask of its own: here a word that the vocabulary lacks looks like a mask.

    Args:
        share: Of the tokens; at least one of each text is drawn.
    """

    level = Level.TOKEN
    output_type = OutputType.TOKENS
    columns = (Column("text", "text", "input", tokenizer="source"),)
    mask_tokens = (MASK,)

    def __init__(self, *, share: Annotated[float, Field(gt=0, lt=1)] = 0.15) -> None:
        self._share = share

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of texts; which to predict is drawn later, but for the masks of questions."""
        rows, targets = [], []
        for text in examples["text"]:
            *before, last = text.split(MASK)
            words = [word for part in (*before, last) for word in part.split()] if before else []
            given = [_before_mask(part, words, tokenizers.source) for part in before]
            end = tokenizers.source.encode([last])[0]
            rows.append([token for part in given for token in (*part, UNKNOWN)] + end)
            asked = [target for part in given for target in (*[None] * len(part), 0)]
            targets.append(asked + [None] * len(end))  # unknown words are UNKNOWN, too, but no masks
        return {"input": rows, "targets": targets}

    def draw(self, encoded: Encoded, generators: Sequence[np.random.Generator]) -> Encoded:
        """Returns texts with masks, and the tokens that they hide as targets."""
        assert encoded.input is not None  # noqa: S101 (it always is)
        tokens, predicted = encoded.input.values.copy(), np.zeros(len(encoded.input.values), dtype=np.bool)
        end = 0
        for length, generator in zip(encoded.input.lengths.tolist(), generators, strict=True):
            start, end = end, end + length
            count = min(length, max(1, round(length * self._share)))
            drawn = start + generator.choice(length, size=count, replace=False)
            predicted[drawn] = True
            kind = generator.random(count)
            tokens[drawn[kind < 0.8]] = UNKNOWN
            others = drawn[(kind >= 0.8) & (kind < 0.9)]
            tokens[others] = encoded.input.values[generator.integers(start, end, len(others))]
        given = Ragged(tokens, encoded.input.lengths)
        return replace(encoded, inputs={"input": given}, targets=encoded.input.only(predicted))

    def answer(self, model: Model, batch: Batch, tokenizers: Tokenizers, n_best: int) -> list[Prediction]:
        """Returns each text with the most probable tokens in place of its masks."""
        refuse_alternatives(n_best, "masks have")
        (outputs, scores), (_, real) = model.best(batch), model.targets(batch)
        filled = batch.source.ids.where(~real, outputs)
        rows = [row[kept].tolist()[1:-1] for row, kept in zip(filled, batch.source.mask, strict=True)]
        texts = tokenizers.source.decode(rows)
        return list(map(Prediction, texts, scores.tolist()))

    def references(self, example: Example) -> list[Any]:
        """Returns the text."""
        return [example["text"]]


def _before_mask(text: str, words: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """Returns the tokens of the text before a mask, after which the given words may be.

    Many tokenizers keep a space with the word after it. The space before a mask is then part of the masked
    token, as in training, where whole tokens are masked.
    """
    if not text.endswith(" "):
        return tokenizer.encode([text])[0]
    alone, *continued = tokenizer.encode([text, *(f"{text}{word}" for word in ("a", *words))])
    if all(row[: len(alone)] == alone for row in continued):
        return alone
    return tokenizer.encode([text[:-1]])[0]
