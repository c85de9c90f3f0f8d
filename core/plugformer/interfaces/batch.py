"""Examples as numbers: encoded, and as the batches that models read, with padding and without."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from plugformer.interfaces.position import Padding

Side = Literal["right", "left"]
"""Where padding stands."""

IGNORED = -100
"""The target of a token that has none, -100 as in PyTorch's `cross_entropy`."""


@dataclass(frozen=True)
class Tokens:
    """Token numbers, one sequence to a row.

    Attributes:
        ids: Token numbers; PADDING where there is none.
        mask: True for real tokens, BEGIN and END included; False for padding.
        padding: Where the others are.
        places: Those of real tokens, once they are located. Other tokens made of these have none.
        following: Likewise those of real tokens with a real one behind them, all but the last position.
    """

    ids: Int[Tensor, "batch length"]
    mask: Bool[Tensor, "batch length"]
    padding: Padding
    places: Int[Tensor, " tokens"] | None = field(default=None, init=False, repr=False, compare=False)
    following: Int[Tensor, " tokens"] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def count(self) -> int:
        """Number of real tokens."""
        return int(self.mask.sum())

    def located(self) -> "Tokens":
        """Returns the same tokens with their places, which are then known on every device."""
        following = self.mask[:, :-1] & self.mask[:, 1:]
        return _with(replace(self), places=places_of(self.mask), following=places_of(following))

    def to(self, device: torch.device | str) -> "Tokens":
        """Returns the same tokens on another device."""
        places, following = _copy_if_any(self.places, device), _copy_if_any(self.following, device)
        real = with_places(_copy(self.mask, device), places)
        copied = Tokens(_copy(self.ids, device), real, self.padding)
        return _with(copied, places=places, following=following)

    def select(self, rows: Int[Tensor, " rows"]) -> "Tokens":
        """Returns some rows, in the order asked for."""
        return Tokens(self.ids.index_select(0, rows), self.mask.index_select(0, rows), self.padding)


NO_TOKENS = Tokens(torch.zeros(0, 0, dtype=torch.int64), torch.zeros(0, 0, dtype=torch.bool), Padding.NONE)
"""No examples: what a stack reads that has nothing to read."""


NO_TARGETS = torch.zeros(0, dtype=torch.int64)
"""The targets of a batch that has none besides the next tokens."""


@dataclass(frozen=True)
class Batch:
    """Examples that are computed together.

    Attributes:
        source: What a bidirectional stack reads.
        target: What a causal stack reads, the given beginning first, then what it is to continue with.
        targets: What the head is to predict besides the next tokens of `target`: for each example (batch,)
            or (batch, outputs), or for each token of the source (batch, length), where `token_targets` tells
            those that there are: IGNORED among integers and NaN among floats are none.
        given: Number of tokens of each row of `target` that are given and not to be predicted; one, BEGIN,
            if None.
        rows: Each example's row in its split.
        inputs: What each example gives, an `Example` without outputs, for answers that quote it; read from
            the split when it is asked for.
        predicted: Places of the hidden states that the head predicts from, once they are located. Other
            batches made of this one have none.
    """

    source: Tokens = NO_TOKENS
    target: Tokens = NO_TOKENS
    targets: Shaped[Tensor, "..."] = NO_TARGETS
    given: Int[Tensor, " batch"] | None = None
    rows: list[int] = field(default_factory=list)
    inputs: Sequence[Any] = ()
    predicted: Int[Tensor, " predicted"] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def tokens(self) -> int:
        """Number of real tokens that the stacks read."""
        return self.source.count + self.target.count

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""
        return (self.source if len(self.source.ids) else self.target).ids.device

    def located(self, predicted: Bool[Tensor, "batch length"]) -> "Batch":
        """Returns the same batch with the places of its real tokens, and of those that are predicted from.

        On the host nobody waits for them. On a device, their number would be asked for in every pass.
        """
        found = replace(self, source=self.source.located(), target=self.target.located())
        return _with(found, predicted=places_of(predicted))

    def to(self, device: torch.device | str) -> "Batch":
        """Returns the same batch on another device; the host does not wait for a copy to a CUDA device."""
        copied = replace(
            self,
            source=self.source.to(device),
            target=self.target.to(device),
            targets=_copy(self.targets, device),
            given=_copy_if_any(self.given, device),
        )
        return _with(copied, predicted=_copy_if_any(self.predicted, device))

    def questions(self, rows: Int[Tensor, " rows"]) -> "Batch":
        """Returns some rows, in the order asked for, of a batch without answers."""
        return replace(
            self,
            source=self.source.select(rows) if len(self.source.ids) else self.source,
            target=self.target.select(rows) if len(self.target.ids) else self.target,
            given=None if self.given is None else self.given.index_select(0, rows),
            rows=[self.rows[row] for row in rows.tolist()] if self.rows else [],
            inputs=(),
        )


def places_of(real: Bool[Tensor, "batch length"]) -> Int[Tensor, " tokens"]:
    """Returns the places of True in the flattened mask; without waiting, if they came with it."""
    known: Tensor | None = getattr(real, _PLACES, None)
    return real.flatten().nonzero().squeeze(1) if known is None else known


def with_places(
    real: Bool[Tensor, "batch length"], places: Int[Tensor, " tokens"] | None
) -> Bool[Tensor, "batch length"]:
    """Returns the mask, from which `places_of` reads these places; none are given with None."""
    if places is None:
        return real
    same = real.view_as(real)  # others keep the tensor as it is
    setattr(same, _PLACES, places)
    return same


_PLACES = "plugformer_places"

D = TypeVar("D", Tokens, Batch)


def _copy(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Returns a tensor on another device; the host goes on while CUDA fetches it from pinned memory."""
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu" and torch.cuda.is_available():
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def _copy_if_any(tensor: Tensor | None, device: torch.device | str) -> Tensor | None:
    return None if tensor is None else _copy(tensor, device)


def _with(found: D, **located: Tensor | None) -> D:
    """Sets what nobody gives to a constructor, so that no replacement of other fields keeps it."""
    for name, value in located.items():
        object.__setattr__(found, name, value)
    return found


@dataclass(frozen=True)
class Ragged:
    """Sequences of different length, end to end in one array.

    Attributes:
        values: All token numbers, or the targets of all tokens: integers, IGNORED where a token has none, or
            floats, NaN where a token has none.
        lengths: Of each sequence.
    """

    values: NDArray[np.integer[Any]] | NDArray[np.floating[Any]]
    lengths: NDArray[np.integer[Any]]

    @classmethod
    def repeated(cls, value: int, count: int) -> "Ragged":
        """Returns so many sequences of one token."""
        return cls(np.full(count, value, dtype=np.int64), np.ones(count, dtype=np.int64))

    def followed_by(self, other: "Ragged") -> "Ragged":
        """Returns each sequence with the other's of the same number behind it."""
        lengths = self.lengths + other.lengths
        row = np.concatenate(
            [np.repeat(np.arange(len(each.lengths)), each.lengths) for each in (self, other)]
        )
        order = np.argsort(row, kind="stable")
        return Ragged(np.concatenate([self.values, other.values])[order], lengths)

    @classmethod
    def of(cls, rows: Sequence[Sequence[int | float | None]]) -> "Ragged":
        """Returns sequences of token numbers, or of targets, floats too, None where a token has none."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        numbers = [number for row in rows for number in row]
        values = np.array([0 if number is None else number for number in numbers])
        floats = len(values) > 0 and np.issubdtype(values.dtype, np.floating)
        values = values if floats else values.astype(np.int64)
        values[[number is None for number in numbers]] = np.nan if floats else IGNORED
        return cls(values, lengths)

    @property
    def present(self) -> NDArray[np.bool]:
        """Which values are targets."""
        found: NDArray[np.bool] = (
            ~np.isnan(self.values)
            if np.issubdtype(self.values.dtype, np.floating)
            else self.values != IGNORED
        )
        return found

    def rows(self) -> list[list[Any]]:
        """Returns the sequences one by one, as `of` takes them."""
        ends = np.cumsum(self.lengths)
        return [row.tolist() for row in np.split(self.values, ends)[:-1]]


@dataclass(frozen=True)
class Encoded:
    """Examples as a task type encodes them: no BEGIN and END yet, no padding.

    Attributes:
        input: Token numbers of what is given; None if nothing is.
        output: Token numbers of what is to follow it; None if nothing is, or when predicting.
        targets: What is to be predicted of the input: numbers for each example, (examples,) or
            (examples, outputs), or one for each of its tokens: integers, IGNORED where a token has none, or
            floats, NaN where a token has none.
        start: Token numbers that each output begins with and that are given, in place of BEGIN alone.
        complete: Whether an output ends where its tokens do, so that END is to follow.
    """

    input: Ragged | None = None
    output: Ragged | None = None
    targets: Ragged | NDArray[Any] | None = None
    start: Ragged | None = None
    complete: bool = True

    def __len__(self) -> int:
        """Returns the number of examples."""
        one = self.input or self.output or self.start
        return 0 if one is None else len(one.lengths)


def token_targets(
    targets: Shaped[Tensor, "batch length"],
) -> tuple[Shaped[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """Returns the targets of tokens as heads read them, and which tokens have one.

    Integers stay as they are, IGNORED where a token has none. Floats are 0 there, never NaN, which would
    spread through a sum that leaves them out by multiplication. So -100.0 is a number like others.

    Args:
        targets: A batch's.
    """
    if not targets.is_floating_point():
        return targets, targets != IGNORED
    present = ~targets.isnan()
    return targets.masked_fill(~present, 0.0), present


def unpad(x: Float[Tensor, "positions width"], rows: Int[Tensor, " tokens"]) -> Float[Tensor, "tokens width"]:
    """Returns some rows of `x`, none of them twice, which makes the gradient cheap: each has one place."""
    taken: Tensor = _Taken.apply(x, rows)
    return taken


class _Taken(torch.autograd.Function):
    """`index_select`, whose own gradient would add up what falls on one row."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, rows: Tensor) -> Tensor:
        return x.index_select(0, rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.positions = len(inputs[0])
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        zeros = gradient.new_zeros(ctx.positions, *gradient.shape[1:])
        return zeros.index_copy(0, rows, gradient), None
