"""Positions of tokens, and positional encodings."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

T = TypeVar("T")


class Padding(StrEnum):
    """Where a batch has padding; known when it is built, so that no mask is read from a device.

    Attributes:
        NONE: Every position is a real token.
        RIGHT: Behind the real tokens of each row.
        ANYWHERE: On the left, or between real tokens.
    """

    NONE = "none"
    RIGHT = "right"
    ANYWHERE = "anywhere"


@dataclass(eq=False)
class Positions:
    """The positions of a batch of tokens, with their encoding; all layers of a stack share them.

    Attributes:
        index: Each token's position, counting real tokens only; (1 or batch, length). The first one may be
            another number than 0, as after a cache, so that it is no index into this sequence.
        mask: True for real tokens, False for padding.
        padding: Where the padding is.
        encoding: The positional encoding of the stack.
        end: An upper bound of the positions, exclusive, known without reading a device; None if unknown.
        marks: Numbers of the tokens by name, which views read.
    """

    index: Int[Tensor, "#batch length"]
    mask: Bool[Tensor, "batch length"]
    padding: Padding
    encoding: "PositionalEncoding"
    end: int | None = None
    marks: Mapping[str, Int[Tensor, "batch length"]] = field(default_factory=dict)
    _memo: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        mask: Bool[Tensor, "batch length"],
        encoding: "PositionalEncoding",
        padding: Padding = Padding.ANYWHERE,
        start: int = 0,
    ) -> "Positions":
        """Returns the positions of tokens with this mask; the first real token is at `start`."""
        if padding is Padding.ANYWHERE:
            index = (mask.long().cumsum(1) - 1).clamp(min=0) + start
        else:
            index = torch.arange(start, start + mask.shape[1], device=mask.device)[None]
        return cls(index, mask, padding, encoding, start + mask.shape[1])

    @property
    def length(self) -> int:
        """Number of positions along the sequence, padding included."""
        return self.mask.shape[1]

    def mark(self, name: str) -> Int[Tensor, "batch length"]:
        """Returns each token's mark of this name, 0 for tokens without."""
        return self.marks[name] if name in self.marks else torch.zeros_like(self.mask, dtype=torch.int64)

    def with_encoding(self, encoding: "PositionalEncoding") -> "Positions":
        """Returns the same positions with another encoding."""
        return self if encoding is self.encoding else replace(self, encoding=encoding)

    def advance(self, mask: Bool[Tensor, "batch new"], padding: Padding) -> "Positions":
        """Returns the positions of new tokens that come after these."""
        if self.padding is Padding.NONE and padding is not Padding.ANYWHERE:
            return Positions.of(mask, self.encoding, padding, start=self.length)
        before = self.mask.sum(dim=1, keepdim=True)
        index = (before + mask.long().cumsum(1) - 1).clamp(min=0)
        end = None if self.end is None else self.end + mask.shape[1]
        return Positions(index, mask, padding, self.encoding, end)

    def concatenate(self, new: "Positions") -> "Positions":
        """Returns these positions followed by `new` ones along the sequence."""
        batch = max(self.index.shape[0], new.index.shape[0])
        index = torch.cat([self.index.expand(batch, -1), new.index.expand(batch, -1)], dim=1)
        both_full = self.padding is Padding.NONE and new.padding is Padding.NONE
        padding = Padding.NONE if both_full else Padding.ANYWHERE
        end = None if self.end is None or new.end is None else max(self.end, new.end)
        names = {**self.marks, **new.marks}
        marks = {name: torch.cat([self.mark(name), new.mark(name)], dim=1) for name in names}
        return Positions(index, torch.cat([self.mask, new.mask], dim=1), padding, self.encoding, end, marks)

    def select(self, rows: Int[Tensor, " rows"]) -> "Positions":
        """Returns the positions of these rows of the batch, in this order."""
        index = self.index if self.index.shape[0] == 1 else self.index.index_select(0, rows)
        marks = {name: mark.index_select(0, rows) for name, mark in self.marks.items()}
        return replace(self, index=index, mask=self.mask.index_select(0, rows), marks=marks)

    def beside(self, batch: int) -> "Positions":
        """Returns the positions of as many rows for each of `batch` examples, one behind the other."""
        if torch.compiler.is_exporting() or batch == len(self.mask):
            return self
        marks = {name: mark.reshape(batch, -1) for name, mark in self.marks.items()}
        padding = self.padding if self.padding is Padding.NONE else Padding.ANYWHERE
        index, mask = self.index.expand_as(self.mask).reshape(batch, -1), self.mask.reshape(batch, -1)
        return replace(self, index=index, mask=mask, padding=padding, marks=marks)

    @property
    def tensors(self) -> tuple[Int[Tensor, "..."] | Bool[Tensor, "..."], ...]:
        """Index, mask and marks: see `State.tensors`."""
        return self.index.expand_as(self.mask), self.mask, *self.marks.values()

    def rebuilt(self, tensors: Sequence[Int[Tensor, "..."] | Bool[Tensor, "..."]]) -> "Positions":
        """Returns positions of which only these tensors are known: see `State.rebuilt`."""
        marks = dict(zip(self.marks, tensors[2:], strict=True))
        return Positions(tensors[0], tensors[1], Padding.ANYWHERE, self.encoding, marks=marks)

    def rotate(
        self, heads: Float[Tensor, "batch heads length head_width"]
    ) -> Float[Tensor, "batch heads length head_width"]:
        """Applies the encoding's rotation to query or key heads at these positions."""
        return self.encoding.rotate(heads, self)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns `make()`, computed once for all layers of a stack."""
        if key not in self._memo:
            self._memo[key] = make()
        return cast("T", self._memo[key])


class PositionalEncoding(nn.Module):
    """A positional encoding, with four slots; each does nothing by default.

    A component is constructed as `Encoding(model, **options)` with a `ModelContext`. It overrides one or more
    slots, and validation reports slots that no attention reads. Positions count real tokens only.
    """

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
