"""Positions of tokens, which of them each token sees, and positional encodings."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

T = TypeVar("T")


@dataclass(eq=False)
class Positions:
    """The positions of a batch of tokens, with their encoding; all layers of a stack share them.

    Attributes:
        index: Each token's position, (1 or batch, length). In steps of decoding the first one is not 0, so
            that positions are no indices of this tensor. Padding has any position.
        mask: The padding mask: True for real tokens; None if there is no padding.
        encoding: The positional encoding of the stack.
        end: An upper bound of the positions, exclusive, known without reading a device; None in steps that
            are exported or captured, whose callers keep to the maximum length.
        start: The first position, if those of all rows are start, start + 1 and so on; otherwise None.
        marks: Numbers of the tokens by name, which views read.
    """

    index: Int[Tensor, "#batch length"]
    mask: Bool[Tensor, "batch length"] | None
    encoding: "PositionalEncoding"
    end: int | None = None
    start: int | None = None
    marks: Mapping[str, Int[Tensor, "batch length"]] = field(default_factory=dict)
    _memo: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        length: int,
        encoding: "PositionalEncoding",
        mask: Bool[Tensor, "batch length"] | None = None,
        *,
        start: int = 0,
        device: torch.device | None = None,
    ) -> "Positions":
        """Returns the positions of sequences that are padded on the right and begin at `start`."""
        index = torch.arange(start, start + length, device=device if mask is None else mask.device)[None]
        return cls(index, mask, encoding, start + length, start)

    @property
    def length(self) -> int:
        """Number of positions along the sequence, padding included."""
        return self.index.shape[1]

    def mark(self, name: str) -> Int[Tensor, "#batch length"]:
        """Returns each token's mark of this name, 0 for tokens without."""
        return self.marks[name] if name in self.marks else torch.zeros_like(self.index)

    def select(self, rows: Int[Tensor, " rows"]) -> "Positions":
        """Returns the positions of these rows of the batch, in this order."""
        index = self.index if self.index.shape[0] == 1 else self.index.index_select(0, rows)
        mask = None if self.mask is None else self.mask.index_select(0, rows)
        marks = {name: mark.index_select(0, rows) for name, mark in self.marks.items()}
        return replace(self, index=index, mask=mask, marks=marks)

    def beside(self, rows: int, batch: int) -> "Positions":
        """Returns the positions of `rows` rows as those of `batch` ones, several side by side in each."""
        if rows == batch:
            return self
        index = self.index.expand(rows, -1).reshape(batch, -1)
        mask = None if self.mask is None else self.mask.reshape(batch, -1)
        return replace(self, index=index, mask=mask, start=None, marks={})

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_width"]
    ) -> Float[Tensor, "batch heads length head_width"]:
        """Applies the encoding's rotation to query or key heads at these positions."""
        return cast("Tensor", self.encoding("rotate", heads, self))

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns `make()`, computed once for all layers of a stack."""
        if key not in self._memo:
            self._memo[key] = make()
        return cast("T", self._memo[key])


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


class PositionalEncoding(nn.Module):
    """A positional encoding, with four methods; each does nothing by default.

    A component is constructed as `Encoding(model, **options)` with a `ModelContext`. It overrides one or more
    methods, and validation reports those that no attention calls. Positions count real tokens only.
    """

    def forward(self, method: str, *arguments: Any) -> Any:
        """Calls a method by name, as the core does, so that torch's hooks see it; not to be overridden."""
        return getattr(self, method)(*arguments)

    def embed(
        self,
        x: Float[Tensor, "batch length width"],
        positions: Positions,  # noqa: ARG002 (a default)
    ) -> Float[Tensor, "batch length width"]:
        """Adds positions to the embeddings, once, below the first layer.

        Raises:
            LengthError: A position lies beyond what the encoding can represent.
        """
        return x

    def rotate(
        self,
        heads: Float[Tensor, "batch heads length head_width"],
        positions: Positions,  # noqa: ARG002
    ) -> Float[Tensor, "batch heads length head_width"]:
        """Rotates query or key heads by their positions; the lengths of all change by the same factor."""
        return heads

    def bias(
        self,
        query: Positions,  # noqa: ARG002
        key: Positions,  # noqa: ARG002
    ) -> Float[Tensor, "#batch maps query key"] | None:
        """Returns the bias of the attention scores of each softmax map, or None."""
        return None

    def content_bias(
        self,
        query_heads: Float[Tensor, "batch heads query head_width"],  # noqa: ARG002
        key_heads: Float[Tensor, "batch groups key head_width"],  # noqa: ARG002
        query: Positions,  # noqa: ARG002
        key: Positions,  # noqa: ARG002
    ) -> Float[Tensor, "#batch #heads query key"] | None:
        """Returns the bias of the products of queries and keys, before they are scaled, or None.

        Each layer computes it: relative position representations (Shaw et al. 2018:
        https://arxiv.org/abs/1803.02155), Transformer-XL (https://arxiv.org/abs/1901.02860), disentangled
        attention (https://arxiv.org/abs/2006.03654). Heads are rotated; head h reads group
        h // (heads / groups).
        """
        return None
