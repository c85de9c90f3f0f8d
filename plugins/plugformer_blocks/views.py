"""Further views: a prefix that is read in both directions, and documents of their own."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from plugformer.interfaces import CAUSAL, END, Positions, View


@dataclass(frozen=True)
class Prefix(View):
    """Every token sees the prefix, and tokens after it also those before them: a prefix LM.

    Raffel et al. 2020, section 3.2.1: https://arxiv.org/abs/1910.10683. The tokens of the prefix have the
    mark `in_prefix`, 1. An architecture gives it, and its decoder reads the prefix in one piece.
    """

    def allowed(self, query: Positions, key: Positions) -> Bool[Tensor, "#batch query key"] | None:
        """Returns whether the key belongs to the prefix, or is no later than the query."""
        past = CAUSAL.allowed(query, key)
        if past is None or "in_prefix" not in key.marks:
            return past
        return past | (key.marks["in_prefix"][:, None] > 0)

    def is_causal(self, query: Positions, key: Positions) -> bool:
        """Returns whether the queries are a whole sequence without a prefix."""
        return "in_prefix" not in key.marks and CAUSAL.is_causal(query, key)


@dataclass(frozen=True)
class Within(View):
    """A token sees what `view` allows of its own document, and positions count within documents.

    END closes a document as a target, and opens the next one as an input. The mark `document` is the position
    in the sequence at which a token's document begins.
    """

    view: View

    @property
    def causal(self) -> bool:  # type: ignore[override]  # it depends on the view
        """That of `view`."""
        return self.view.causal

    def allowed(self, query: Positions, key: Positions) -> Bool[Tensor, "#batch query key"]:
        """Returns whether both are in one document, and `view` allows it."""
        same = query.mark("document")[:, :, None] == key.mark("document")[:, None, :]
        allowed = self.view.allowed(query, key)
        return same if allowed is None else same & allowed

    def positions(
        self, new: Positions, ids: Int[Tensor, "batch new"], past: Positions | None = None
    ) -> Positions:
        """Returns positions that count from the beginning of each token's document."""
        new = self.view.positions(new, ids, past)
        start = new.index.where(ids == END, 0).cummax(dim=1).values
        if past is not None:
            before = past.mark("document")
            before = before if past.mask is None else before.masked_fill(~past.mask, 0)
            start = torch.maximum(start, before.amax(dim=1, keepdim=True))
        return replace(new, index=new.index - start, start=None, marks={**new.marks, "document": start})
