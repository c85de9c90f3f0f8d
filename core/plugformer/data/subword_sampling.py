"""Training examples whose texts are cut into other tokens in every epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plugformer.data.vocabularies import Vocabularies
from plugformer.interfaces import Encoded, Example, Level, Limits, Ragged, Tokenizer, Tokenizers


class SubwordSampling:
    """Encodes examples with tokenizers that draw how they cut texts.

    Args:
        vocabularies: Of the task.
        limits: Most tokens of an example.
        truncate: Whether longer texts are cut; if not, an example whose draw is too long is left as it is.
    """

    def __init__(self, vocabularies: Vocabularies, limits: Limits, *, truncate: bool) -> None:
        self._tokenizers = vocabularies.tokenizers
        self._type = vocabularies.task_type
        self._limits = limits
        self._truncate = truncate

    @property
    def active(self) -> bool:
        """Whether a tokenizer draws anything."""
        return any(type(each).sampling is not Tokenizer.sampling for each in self._tokenizers)

    def encode(
        self, encoded: Encoded, examples: Sequence[Example], generators: Sequence[np.random.Generator]
    ) -> Encoded:
        """Returns examples with the tokens that have been drawn.

        Args:
            encoded: The examples without anything drawn.
            examples: What they say.
            generators: One for each.
        """
        drawn = [self._drawn(*each) for each in zip(examples, generators, strict=True)]
        parts: dict[str, Any] = {
            name: Ragged.of(
                [
                    old if new is None else new[name]
                    for new, old in zip(drawn, _rows(getattr(encoded, name)), strict=True)
                ]
            )
            for name in ("input", "output", "targets")
            if isinstance(getattr(encoded, name), Ragged)
        }
        return replace(encoded, **parts)

    def _drawn(self, example: Example, generator: np.random.Generator) -> Mapping[str, Any] | None:
        """Returns the numbers of an example; None if they are too many."""
        tokenizers = Tokenizers(*(each.sampling(generator) for each in self._tokenizers))
        found = self._type.encode({name: [value] for name, value in example.items()}, tokenizers)
        rows = {name: values[0] for name, values in found.items()}
        sides = {name: getattr(self._limits, name) for name in ("input", "output") if name in rows}
        if self._truncate:
            rows |= {name: rows[name][:limit] for name, limit in sides.items()}
            if self._type.level is Level.TOKEN:
                rows["targets"] = rows["targets"][: sides["input"]]
        lengths = {name: len(rows[name]) for name in sides}
        fits = all(lengths[name] <= limit for name, limit in sides.items())
        together = len(lengths) < 2 or sum(lengths.values()) <= self._limits.together
        return rows if fits and together else None


def _rows(ragged: Ragged) -> list[list[int]]:
    return [row.tolist() for row in np.split(ragged.values, np.cumsum(ragged.lengths)[:-1])]
