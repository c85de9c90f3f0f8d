"""Views besides EVERYTHING and PAST: a prefix that is read in both directions, and documents of their own."""

from dataclasses import dataclass, replace

from jaxtyping import Bool
from torch import Tensor

from plugformer.interfaces import END, PAST, PositionalEncoding, Positions, Tokens, View


@dataclass(frozen=True)
class Prefix(View):
    """Every token sees the prefix, and tokens behind it also those before them: a prefix LM.

    Raffel et al. 2020, section 3.2.1: https://arxiv.org/abs/1910.10683. The tokens of the prefix have the
    mark `in_prefix`, 1. An architecture gives it, and its decoder reads the prefix in one piece.
    """

    def allowed(self, query: Positions, key: Positions) -> Bool[Tensor, "#batch query key"] | None:
        """Returns whether the key belongs to the prefix, or is no later than the query."""
        past = PAST.allowed(query, key)
        if past is None or "in_prefix" not in key.marks:
            return past
        return past | (key.marks["in_prefix"][:, None] > 0)

    def is_causal(self, query: Positions, key: Positions) -> bool:
        """Returns whether the queries are a whole sequence without a prefix."""
        return "in_prefix" not in key.marks and PAST.is_causal(query, key)


@dataclass(frozen=True)
class Within(View):
    """A token sees what `view` allows of its own document, and positions count within documents.

    END closes a document as a target, and opens the next one as an input. The mark `document` is the number
    of a token's document in its sequence.
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
        self, tokens: Tokens, encoding: PositionalEncoding, past: Positions | None = None
    ) -> Positions:
        """Returns for each new token how many real tokens of its document there are before it."""
        new = self.view.positions(tokens, encoding, past)
        document = (tokens.ids == END).cumsum(dim=1)
        if past is not None:
            document = document + past.mark("document")[:, -1:]
        new = replace(new, marks={**new.marks, "document": document})
        whole = new if past is None else past.concatenate(new)
        same = document[:, :, None] == whole.mark("document")[:, None, :]
        before = (same & whole.mask[:, None, :]).tril(whole.length - new.length - 1)
        return replace(new, index=before.sum(dim=2))
