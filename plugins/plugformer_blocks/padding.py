"""Sequences of different lengths as one tensor, with special tokens and padding, and their targets."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from plugformer.interfaces import ABSENT, BEGIN, END, PADDING, Ragged, Tokens


def pad(rows: Ragged, *, begin: bool = False, end: bool = True, length: int = 0) -> Tokens:
    """Appends END to every sequence, prepends BEGIN if asked, and pads on the right.

    Args:
        rows: Token numbers without special tokens.
        begin: Whether each sequence starts with BEGIN.
        end: Whether each sequence ends with END.
        length: Minimum length of the result, which is at least that of the longest sequence.
    """
    column, whole = _columns(rows, begin + end, length)
    ids = np.full(column.shape, PADDING, dtype=np.int64)
    real = column < whole[:, None]
    ids[(column >= begin) & (column < whole[:, None] - end)] = rows.values
    if end:
        ids[column == whole[:, None] - 1] = END
    ids[:, :begin] = BEGIN
    tokens = Tokens(torch.from_numpy(ids), torch.from_numpy(real), bool(real.all()))
    if rows.counts is None:
        return tokens
    there = np.arange(rows.counts.max(initial=0)) < rows.counts[:, None]
    numbers = np.where(there, there.cumsum().reshape(there.shape) - 1, -1)
    return replace(tokens, rows_of=torch.from_numpy(numbers))


def pad_targets(targets: Ragged | NDArray[Any] | None, *, length: int = 0) -> Shaped[Tensor, "batch ..."]:
    """Returns the targets of examples, or of tokens where `pad` puts these, BEGIN in front and END after.

    Integers stay integers, ABSENT where a token has no target; floats become float32, NaN where it has none.
    Without targets, the result is empty.
    """
    if targets is None:
        return torch.zeros(0, dtype=torch.int64)
    values = targets.values if isinstance(targets, Ragged) else targets
    kind, missing = (np.float32, np.nan) if np.issubdtype(values.dtype, np.floating) else (np.int64, ABSENT)
    if not isinstance(targets, Ragged):
        return torch.from_numpy(values.astype(kind))
    column, whole = _columns(targets, 2, length)
    padded = np.full(column.shape, missing, kind)
    padded[(column >= 1) & (column < whole[:, None] - 1)] = values
    return torch.from_numpy(padded)


def token_targets(
    targets: Shaped[Tensor, "batch length"],
) -> tuple[Shaped[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """Returns the targets of tokens as heads read them, and a mask of the tokens that have one.

    ABSENT, and NaN among floats, mean no target and become 0.
    """
    present = ~targets.isnan() if targets.is_floating_point() else targets != ABSENT
    return targets.masked_fill(~present, 0), present


def next_tokens(target: Tokens) -> tuple[Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """Returns the targets of teacher forcing, the next token of each position, and which of them are real."""
    return target.ids[:, 1:], target.mask[:, 1:]


def before_next(target: Tokens) -> Tokens:
    """Returns the tokens that another real token follows: the inputs of teacher forcing."""
    marks = {name: mark[:, :-1] for name, mark in target.marks.items()}
    return Tokens(target.ids[:, :-1], target.mask[:, 1:], target.full, marks=marks)


def _columns(rows: Ragged, special: int, length: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns for each place its number, and the sequences' lengths with special tokens."""
    whole = rows.lengths + special
    length = max(int(whole.max(initial=0)), length)
    return np.broadcast_to(np.arange(length), (len(whole), length)), whole
