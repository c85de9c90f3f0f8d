"""Views: which tokens of a sequence each of its tokens sees."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool, Int
from torch import Tensor

from plugformer.interfaces.position import Positions


@dataclass(frozen=True)
class View:
    """Which tokens of its sequence each token of a stack sees; none sees padding. By itself, each sees all.

    A view that hides tokens is a frozen dataclass, too.

    Attributes:
        causal: Whether no token ever sees a later one.
    """

    causal: ClassVar[bool] = False

    def allowed(self, query: Positions, key: Positions) -> Bool[Tensor, "#batch query key"] | None:  # noqa: ARG002
        """Returns where a query sees a key, by their `index` and marks; None for everywhere."""
        return None

    def is_causal(self, query: Positions, key: Positions) -> bool:  # noqa: ARG002 (a default)
        """Returns whether the `is_causal` of a fused kernel is the mask of a call; it reads no tensors."""
        return False

    def positions(
        self,
        new: Positions,
        ids: Int[Tensor, "batch new"],  # noqa: ARG002 (a default)
        past: Positions | None = None,  # noqa: ARG002
    ) -> Positions:
        """Returns the positions and marks of new tokens after `past` ones; by default as they come."""
        return new


@dataclass(frozen=True)
class Causal(View):
    """A token sees itself and those before it."""

    causal: ClassVar[bool] = True

    def allowed(self, query: Positions, key: Positions) -> Bool[Tensor, "#batch query key"] | None:
        """Returns whether the key is no later; None for the last token alone."""
        return None if query.length == 1 else key.index[:, None, :] <= query.index[:, :, None]

    def is_causal(self, query: Positions, key: Positions) -> bool:
        """Returns whether the queries are a whole sequence."""
        return query.index is key.index


BIDIRECTIONAL = View()
CAUSAL = Causal()
