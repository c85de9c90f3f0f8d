"""A mixture of denoisers: some texts are continued, of others hidden spans are restored, in one decoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from numpy.random import Generator
from torch import Tensor

from plugformer.interfaces import (
    BEGIN,
    CAUSAL,
    END,
    UNKNOWN,
    Column,
    Encoded,
    Example,
    Examples,
    Level,
    OutputType,
    Positions,
    Ragged,
    TaskType,
    Tokenizers,
    View,
)

RATES = (0.15, 0.5)
"""The shares of tokens that the denoisers R and X hide: UL2, table 1."""

SPAN = 3
"""The mean length of a hidden span."""


@dataclass(frozen=True)
class WholeQuestion(View):
    """Every token sees the text with hidden spans, which is between two END; all else sees the past."""

    def allowed(self, query: Positions, key: Positions) -> Bool[Tensor, "#batch query key"] | None:
        """Returns whether the key belongs to the question, or is no later than the query."""
        past = CAUSAL.allowed(query, key)
        return past if past is None else past | (key.mark("question")[:, None, :] > 0)

    def positions(
        self, new: Positions, ids: Int[Tensor, "batch new"], past: Positions | None = None
    ) -> Positions:
        """Returns the positions with the mark `question`: in rows that begin with END, up to the second."""
        if past is not None:
            return new
        ends = ids == END
        asks = (ends & (new.index == 1)).any(dim=1, keepdim=True)
        return replace(new, marks={"question": (asks & (ends.cumsum(dim=1) < 2)).long()})


class MixtureOfDenoisers(TaskType):
    """Continues a text, or restores spans of it: one of three denoisers, drawn for each text and epoch.

    UL2, Tay et al. 2022, section 3.1: https://arxiv.org/abs/2205.05131. S is a causal language model. R and X
    hide spans: BEGIN, END, the text with UNKNOWN for each span, END, and then UNKNOWN and a span in turn. The
    END in front is the paper's mode token. The end of a text gives way to the additional tokens.
    """

    level = Level.NEXT_TOKEN
    output_type = OutputType.TOKENS
    columns = (Column("text", "text", "output", tokenizer="source"),)

    def view(self, view: View) -> View:
        """Returns the view in which texts with hidden spans are read in both directions."""
        return WholeQuestion() if view == CAUSAL else view

    def encode(self, examples: Examples, tokenizers: Tokenizers) -> Mapping[str, Sequence[Any]]:
        """Returns the tokens of texts, or of prompts."""
        return {"output": tokenizers.source.encode(examples["text"])}

    def draw(self, encoded: Encoded, generators: Sequence[Generator]) -> Encoded:
        """Returns the texts with spans hidden in some of them."""
        texts = encoded.output.rows() if encoded.output else []
        pairs = [_denoised(text, draw) for text, draw in zip(texts, generators, strict=True)]
        given, outputs = ([pair[side] for pair in pairs] for side in (0, 1))
        return replace(encoded, start=Ragged.of(given), output=Ragged.of(outputs))

    def example_from_text(self, text: str) -> Example:
        """Returns a prompt."""
        return {"text": text}


def _denoised(text: list[int], draw: Generator) -> tuple[list[int], list[int]]:
    """Returns what is given of a text, and what is to be predicted."""
    rate = draw.choice([0.0, *RATES])
    spans = max(1, round(len(text) * rate / SPAN))
    length = len(text) - 2 * spans - 2
    hidden = max(spans, round(length * rate))
    if not rate or length - hidden < spans:
        return [BEGIN], text
    pieces = np.stack([_lengths(length - hidden, spans, draw), _lengths(hidden, spans, draw)], axis=1)
    parts = np.split(np.array(text[:length]), np.cumsum(pieces.flatten())[:-1])
    seen, restored = [BEGIN, END], []
    for kept, span in zip(parts[::2], parts[1::2], strict=True):
        seen += [*kept.tolist(), UNKNOWN]
        restored += [UNKNOWN, *span.tolist()]
    return [*seen, END], restored


def _lengths(total: int, count: int, draw: Generator) -> Any:
    """Returns numbers, at least 1 each, that add up to a total."""
    cuts = np.sort(draw.choice(total - 1, count - 1, replace=False)) + 1 if count > 1 else []
    return np.diff([0, *cuts, total])
