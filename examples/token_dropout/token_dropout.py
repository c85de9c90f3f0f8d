"""Leaving out source tokens at random."""

from collections.abc import Generator
from dataclasses import replace
from typing import Annotated

import torch
from pydantic import Field

from plugformer.hooks import hookimpl
from plugformer.interfaces import SPECIAL_TOKENS, UNKNOWN, Callback
from plugformer.interfaces.batch import Batch


class TokenDropout(Callback):
    """Some source tokens become UNKNOWN, other ones at each update.

    Deep Unordered Composition Rivals Syntactic Methods for Text Classification, Iyyer et al. 2015,
    section 3.1: https://aclanthology.org/P15-1162.

    Args:
        rate: Share of the tokens.
    """

    def __init__(
        self, *, rate: Annotated[float, Field(ge=0, lt=1, description="Share of the tokens.")] = 0.1
    ) -> None:
        self.rate = rate

    @hookimpl(wrapper=True)
    def training_batch(self) -> Generator[None, Batch, Batch]:
        """Returns the batch with fewer tokens."""
        batch = yield
        drawn = torch.rand(batch.source.ids.shape, generator=self.generator) < self.rate
        ordinary = batch.source.ids >= len(SPECIAL_TOKENS)
        return replace(
            batch, source=replace(batch.source, ids=batch.source.ids.masked_fill(drawn & ordinary, UNKNOWN))
        )
