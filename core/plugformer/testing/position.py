"""The contract of positional encodings: see plugformer.interfaces.position.

What an encoding does is seen through all three slots at once; one that it does not fill is the identity.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.errors import LengthError
from plugformer.interfaces import Padding, PositionalEncoding, Positions
from plugformer.testing.check import check, require, require_close, require_finite
from plugformer.testing.layout import FULL, PADDED, Layout
from plugformer.testing.module import example, module_checks
from plugformer.testing.subject import Subject

HEAD_WIDTH = 6


@dataclass(frozen=True)
class Effect:
    """What an encoding makes of one example.

    Attributes:
        embedded: Embeddings, (batch, length, width).
        rotated: Heads, (batch, heads, length, head width).
        bias: Added to scores, (batch, heads, query, key); zero if the encoding adds nothing.
    """

    embedded: Float[Tensor, "batch length width"]
    rotated: Float[Tensor, "batch heads length head_width"]
    bias: Float[Tensor, "batch heads query key"]


def effect(subject: Subject, at: Positions, x: Tensor, heads: Tensor, key: Positions | None = None) -> Effect:
    """Returns what the encoding of `at` does there, and to scores of queries at `at` and keys at `key`."""
    keys = at if key is None else key
    bias = at.encoding.bias(at, keys)
    shape = (len(at.real), subject.model.heads, at.length, keys.length)
    added = torch.zeros(shape, dtype=x.dtype) if bias is None else bias.to(x.dtype).expand(shape)
    return Effect(at.encoding.embed(x, at), at.rotate(heads), added)


@check((*FULL, *PADDED))
def shapes(subject: Subject, layout: Layout) -> None:
    """Embeddings and heads keep their shape; a bias has a map for each head, a row for each query."""
    encoding: PositionalEncoding = subject.shaken()
    at = layout.at(encoding)
    x, heads = _example(subject, layout)
    for name, output, given in (("embed", encoding.embed(x, at), x), ("rotate", at.rotate(heads), heads)):
        require(
            output.shape == given.shape,
            f"{name} returns shape {tuple(output.shape)}, given {tuple(given.shape)}",
        )
        require_finite(output, f"{name} returns values that are not finite")
    bias = encoding.bias(at, at)
    if bias is not None:
        batch, length = layout.real.shape
        expected = [(rows, subject.model.heads, length, length) for rows in (1, batch)]
        require(
            tuple(bias.shape) in expected, f"bias has shape {tuple(bias.shape)}, expected one of {expected}"
        )
        require_finite(bias, "bias is not finite: a mask is the scope's")


@check((1, 3, 8))
def any_number_of_heads(subject: Subject, heads: int) -> None:
    """Rotation takes any number of heads and any even head width; a bias has the model's number of heads."""
    encoding: PositionalEncoding = subject.shaken(heads=heads, width=heads * 6)
    at = FULL[2].at(encoding)
    for width in (2, 6, 10):
        x = torch.randn(2, heads, at.length, width, dtype=torch.float64)
        require(at.rotate(x).shape == x.shape, f"rotate changes the shape of heads of width {width}")
    bias = encoding.bias(at, at)
    require(bias is None or bias.shape[1] == heads, f"bias does not have one map for each of {heads} heads")


@check((15, 16, 17, 40))
def long_sequences_work_or_are_refused(subject: Subject, length: int) -> None:
    """Up to the model's longest sequence everything works; beyond it works too, or is a LengthError."""
    encoding: PositionalEncoding = subject.shaken(max_length=16)
    at = Positions.of(torch.ones(1, length, dtype=torch.bool), encoding, Padding.NONE)
    x = torch.randn(1, length, subject.model.width, dtype=torch.float64)
    heads = torch.randn(1, subject.model.heads, length, HEAD_WIDTH, dtype=torch.float64)
    try:
        found = effect(subject, at, x, heads)
    except LengthError as error:
        require(length > 16, f"a sequence of {length} tokens is refused, the model's longest is 16: {error}")
        return
    for output in (found.embedded, found.rotated, found.bias):
        require_finite(output, f"a sequence of {length} tokens gives values that are not finite")


@check(PADDED)
def padding_moves_nothing(subject: Subject, layout: Layout) -> None:
    """Tokens stand where they stand without padding: positions count real tokens only."""
    encoding: PositionalEncoding = subject.shaken()
    x, heads = _example(subject, layout)
    whole = effect(subject, layout.at(encoding), x, heads)
    for row, real in enumerate(layout.real):
        alone = Layout(("x" * int(real.sum()),), Padding.NONE).at(encoding)
        expected = effect(subject, alone, x[row, real][None], heads[row, :, real][None])
        message = "a token is encoded at another position because of padding"
        require_close(whole.embedded[row, real], expected.embedded[0], message)
        require_close(whole.rotated[row, :, real], expected.rotated[0], message)
        require_close(whole.bias[row][:, real][:, :, real], expected.bias[0], message)


@check((1, 3, 6))
def positions_go_on_after_a_cache(subject: Subject, cut: int) -> None:
    """New tokens stand behind those kept before: a piece is encoded as that part of the whole."""
    encoding: PositionalEncoding = subject.shaken()
    layout = FULL[2]
    x, heads = _example(subject, layout)
    whole = effect(subject, layout.at(encoding), x, heads)
    head = Positions.of(layout.real[:, :cut], encoding, Padding.NONE)
    tail = head.following(layout.real[:, cut:], Padding.NONE)
    piece = effect(subject, tail, x[:, cut:], heads[:, :, cut:], key=head.then(tail))
    message = f"after {cut} kept tokens the next ones are not encoded behind them: positions restart"
    require_close(piece.embedded, whole.embedded[:, cut:], message)
    require_close(piece.rotated, whole.rotated[:, :, cut:], message)
    require_close(piece.bias, whole.bias[:, :, cut:], message)


@check((*FULL[2:], *PADDED[2:]))
def rows_are_independent(subject: Subject, layout: Layout) -> None:
    """A row of a batch is encoded as it is alone."""
    encoding: PositionalEncoding = subject.shaken()
    x, heads = _example(subject, layout)
    at = layout.at(encoding)
    whole = effect(subject, at, x, heads)
    for row in range(len(layout.rows)):
        one = torch.tensor([row])
        alone = effect(subject, at.select(one), x[one], heads[one])
        for output, expected in (
            (whole.embedded, alone.embedded),
            (whole.rotated, alone.rotated),
            (whole.bias, alone.bias),
        ):
            require_close(output[row], expected[0], f"row {row} is encoded otherwise in the batch than alone")


@check((1, 5))
def scores_depend_on_distance(subject: Subject, shift: int) -> None:
    """With rotated heads and bias, the score of a query and a key depends on their distance alone."""
    encoding: PositionalEncoding = subject.shaken()
    real = torch.ones(1, 6, dtype=torch.bool)
    query, key = torch.randn(2, 1, subject.model.heads, 6, HEAD_WIDTH, dtype=torch.float64)

    def scores(start: int) -> Tensor:
        at = Positions.of(real, encoding, Padding.NONE, start=start)
        product = at.rotate(query) @ at.rotate(key).transpose(-2, -1)
        bias = encoding.bias(at, at)
        return product if bias is None else product + bias

    require_close(
        scores(shift),
        scores(0),
        f"scores change when query and key both move by {shift}: they do not depend on distance alone",
        tolerance=1e-4,
    )


@check()
def a_filled_slot_tells_positions_apart(subject: Subject) -> None:
    """Where an encoding does something, it does something else at each of the first positions."""
    encoding: PositionalEncoding = subject.shaken()
    at = FULL[2].at(encoding)
    x = torch.ones(2, at.length, subject.model.width, dtype=torch.float64)
    heads = torch.ones(2, subject.model.heads, at.length, HEAD_WIDTH, dtype=torch.float64)
    found = effect(subject, at, x, heads)
    for slot, rows in (("embed", found.embedded[0]), ("rotate", found.rotated[0].transpose(0, 1).flatten(1))):
        if _fills(encoding, slot):
            same = torch.cdist(rows, rows) + torch.eye(at.length, dtype=rows.dtype)
            require(bool((same > 1e-6).all()), f"{slot} gives two positions the same value")
    if _fills(encoding, "bias"):
        first = found.bias[0, :, -1]  # what the last query sees, by distance
        require(bool((first.diff(dim=-1).abs() > 1e-9).any()), "bias gives all distances the same value")


@check()
def rotation_keeps_lengths(subject: Subject) -> None:
    """A rotated head has the length that it had, or that length times one factor for all heads and positions.

    Such a factor is how YaRN scales attention (https://arxiv.org/abs/2309.00071, section 3.4).
    """
    encoding: PositionalEncoding = subject.shaken()
    at = FULL[2].at(encoding)
    heads = torch.randn(2, subject.model.heads, at.length, HEAD_WIDTH, dtype=torch.float64)
    factors = at.rotate(heads).norm(dim=-1) / heads.norm(dim=-1)
    require_close(factors, factors.mean().expand_as(factors), "rotate changes the lengths of heads unequally")


def _fills(encoding: PositionalEncoding, slot: str) -> bool:
    return getattr(type(encoding), slot) is not getattr(PositionalEncoding, slot)


def _example(subject: Subject, layout: Layout) -> tuple[Tensor, Tensor]:
    batch, length = layout.real.shape
    return (
        torch.randn(batch, length, subject.model.width, dtype=torch.float64),
        torch.randn(batch, subject.model.heads, length, HEAD_WIDTH, dtype=torch.float64),
    )


def _exercise(subject: Subject, encoding: PositionalEncoding, dtype: torch.dtype) -> Tensor:
    """Everything that the encoding does to a padded batch."""
    layout = PADDED[2]
    batch, length = layout.real.shape
    at = layout.at(encoding)
    x = example(batch, length, subject.model.width, dtype=dtype)
    heads = example(batch, subject.model.heads, length, HEAD_WIDTH, dtype=dtype)
    found = effect(subject, at, x, heads)
    return torch.cat([part.flatten() for part in (found.embedded, found.rotated, found.bias)])


CHECKS = (
    *module_checks(_exercise),
    shapes,
    any_number_of_heads,
    long_sequences_work_or_are_refused,
    padding_moves_nothing,
    positions_go_on_after_a_cache,
    rows_are_independent,
    scores_depend_on_distance,
    a_filled_slot_tells_positions_apart,
    rotation_keeps_lengths,
)
