"""Outputs in which no token follows itself."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plugformer.interfaces import END, AllowedTokens, Constraint, Tokenizer


class NewComponent(Constraint):
    """Outputs in which no token follows itself.

    The shortest of the n-grams that Paulus et al. 2017, section 2.5, forbid: https://arxiv.org/abs/1705.04304.
    """

    def compile(self, tokenizer: Tokenizer, shortest: int, longest: int) -> type[AllowedTokens]:
        """Returns what begins the outputs of a batch."""
        return OtherTokens


class OtherTokens(AllowedTokens):
    """All tokens but each row's last one."""

    def __init__(self, least: Int[Tensor, " rows"], most: Int[Tensor, " rows"]) -> None:
        super().__init__(least, most)
        self.last = torch.full_like(least, END)

    def mask(self, log_probabilities: Float[Tensor, "rows vocabulary"]) -> Float[Tensor, "rows vocabulary"]:
        """Returns minus infinity for the last tokens, too."""
        masked = log_probabilities.scatter(1, self.last[:, None], -torch.inf)
        masked[:, END] = log_probabilities[:, END]
        return super().mask(masked)

    def extend(self, tokens: Int[Tensor, " rows"]) -> None:
        """Keeps the tokens that were appended."""
        super().extend(tokens)
        self.last = tokens

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keeps these rows, in this order."""
        super().select(rows)
        self.last = self.last.index_select(0, rows)
