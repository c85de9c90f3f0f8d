"""The contract of positional encodings, see plugformer.interfaces.position.

The checks look at all methods of an encoding at once. One that it does not override changes nothing.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from plugformer.errors import LengthError
from plugformer.interfaces import CAUSAL, PositionalEncoding, Positions, Tokens
from plugformer.model import Cache
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.probes import FULL, PADDED, PIECES, PaddedBatch, Pieces, example, full
from plugformer_testing.subject import Subject

HEAD_WIDTH = 6


class _Effect(NamedTuple):
    """What an encoding computes for one batch: embeddings, rotated heads, and everything added to scores."""

    embedded: Tensor
    rotated: Tensor
    bias: Tensor

    def part(self, row: int, tokens: Tensor | slice = slice(None), keys: Tensor | None = None) -> "_Effect":
        """Returns the effect on some tokens of a row as a batch of one, with the same or other keys."""
        bias = self.bias[row, :, tokens][..., tokens if keys is None else keys]
        return _Effect(self.embedded[row, tokens][None], self.rotated[row, :, tokens][None], bias[None])

    def require_same(self, other: "_Effect", message: str) -> None:
        for one, two in zip(self, other, strict=True):
            require.close(one, two, message)


class _Tokens(NamedTuple):
    """Positions, and embeddings and heads of tokens there."""

    positions: Positions
    x: Tensor
    heads: Tensor

    def effect(self, keys: "_Tokens | None" = None) -> _Effect:
        """Returns the effect of the encoding on them, and on their scores with some keys or their own."""
        embedded = self.positions.encoding.embed(self.x, self.positions)
        return _Effect(embedded, self.positions.rotate(self.heads), self.added(keys or self))

    def added(self, keys: "_Tokens") -> Tensor:
        """Returns all that the encoding adds to their scores with some keys, which are not scaled here."""
        encoding, (query, _, heads), (key, _, key_heads) = self.positions.encoding, self, keys
        total = torch.zeros(*heads.shape[:3], key.length, dtype=heads.dtype)
        for part in (encoding.bias(query, key), encoding.content_bias(heads, key_heads, query, key)):
            total = total if part is None else total + part.to(total.dtype).expand(total.shape)
        return total


def _drawn(subject: Subject, batch: PaddedBatch, encoding: PositionalEncoding | None = None) -> _Tokens:
    """Returns random embeddings and heads of a batch, by default with the encoding of the subject."""
    heads = torch.randn(*batch.mask.shape, subject.model.heads, HEAD_WIDTH, dtype=torch.float64)
    at = batch.at(encoding or subject.perturbed())
    return _Tokens(at, subject.tokens(*batch.mask.shape), heads.transpose(1, 2))


@contract_check((*FULL, *PADDED))
def shapes(subject: Subject, batch: PaddedBatch) -> None:
    """Embeddings and heads keep their shape; a bias has a map for each head, a row for each query."""
    encoding: PositionalEncoding = subject.perturbed()
    positions, x, heads = _drawn(subject, batch, encoding)
    maps = (*heads.shape[:3], positions.length)
    for name, output, *expected in (
        ("embed", encoding.embed(x, positions), x.shape),
        ("rotate", positions.rotate(heads), heads.shape),
        ("bias", encoding.bias(positions, positions), maps, (1, *maps[1:])),
        ("content_bias", encoding.content_bias(heads, heads, positions, positions), maps),
    ):
        if output is not None:
            fits = tuple(output.shape) in expected
            require.that(fits, f"the shape of {name} is {tuple(output.shape)}, expected {tuple(expected[0])}")
            require.finite(output, f"{name}, which masks nothing,")


@contract_check((1, 3, 8))
def any_number_of_heads(subject: Subject, heads: int) -> None:
    """Rotation takes any number of heads and any even head width; a bias has the model's number of heads.

    Keys may have fewer heads than queries: a bias from content takes groups of them.
    """
    encoding: PositionalEncoding = subject.perturbed(heads=heads, width=heads * 6)
    positions = FULL[2].at(encoding)
    for width in (2, 6, 10):
        x = torch.randn(2, heads, positions.length, width, dtype=torch.float64)
        require.equal(positions.rotate(x).shape, x.shape, f"the shape of rotated heads of width {width}")
    maps = [("bias", encoding.bias(positions, positions))]
    query_heads = torch.randn(2, heads, positions.length, HEAD_WIDTH, dtype=torch.float64)
    for groups in {1, heads}:
        content = encoding.content_bias(query_heads, query_heads[:, :groups], positions, positions)
        maps.append((f"content_bias of {groups} key heads", content))
    for name, bias in maps:
        if bias is not None:
            require.equal(bias.shape[1], heads, f"the number of maps of {name}")


@contract_check((15, 16, 17, 40))
def long_sequences_work_or_are_refused(subject: Subject, length: int) -> None:
    """Up to the model's longest sequence everything works; beyond it works too, or is a LengthError."""
    given = _drawn(subject, full(1, length), subject.perturbed(max_length=16))
    try:
        found = given.effect()
    except LengthError as error:
        require.that(length > 16, f"{length} tokens are refused, the model's longest is 16: {error}")
        return
    for output in found:
        require.finite(output, f"what is computed for a sequence of {length} tokens")


@contract_check(PADDED)
def padding_moves_nothing(subject: Subject, batch: PaddedBatch) -> None:
    """Tokens have the positions that they have without padding."""
    given = _drawn(subject, batch)
    (positions, x, heads), whole = given, given.effect()
    for row, real in enumerate(batch.mask):
        unpadded = full(1, int(real.sum())).at(positions.encoding)
        alone = _Tokens(unpadded, x[row, real][None], heads[row, :, real][None]).effect()
        whole.part(row, real).require_same(alone, "a token is encoded at another position because of padding")


@contract_check(PIECES)
def positions_go_on_after_a_cache(subject: Subject, pieces: Pieces) -> None:
    """New tokens come after those kept before: a piece is encoded as that part of the whole."""
    given, cache = _drawn(subject, pieces.whole), Cache([])
    (positions, x, heads), whole = given, given.effect()
    rows, done = torch.arange(len(x))[:, None], torch.zeros(len(x), dtype=torch.long)
    for real, places in pieces:
        tokens = Tokens(places, real, bool(real.all()))
        query, key, _ = cache.extend(tokens, CAUSAL, positions.encoding)
        kept = heads[:, :, torch.arange(key.length).clamp(max=x.shape[1] - 1)]
        new = _Tokens(query, x[rows, places], heads.transpose(1, 2)[rows, places].transpose(1, 2))
        piece, done = new.effect(_Tokens(key, x, kept)), done + real.sum(dim=1)
        for row, (mask, count) in enumerate(zip(real, done, strict=True)):
            keys = torch.arange(int(count))
            found, expected = piece.part(row, mask, keys), whole.part(row, places[row, mask], keys)
            found.require_same(expected, "tokens behind kept ones are not encoded behind them")


@contract_check((*FULL[2:], *PADDED[1:]), given=_drawn)
def rows_are_independent(given: _Tokens) -> None:
    """A row of a batch is encoded as it is alone."""
    (positions, x, heads), whole = given, given.effect()
    for row, one in enumerate(torch.arange(len(x))[:, None]):
        alone = _Tokens(positions.select(one), x[one], heads[one]).effect()
        whole.part(row).require_same(alone, f"row {row} is encoded differently in the batch than alone")


@contract_check((1, 5))
def scores_depend_on_distance(subject: Subject, shift: int) -> None:
    """With rotated heads and bias, the score of a query and a key depends on their distance alone."""
    batch, encoding = full(1, 6), subject.perturbed()
    query, key = (_drawn(subject, batch, encoding) for _ in range(2))

    def scores(start: int) -> Tensor:
        at = batch.at(encoding, start)
        queries, keys = (_Tokens(at, tokens.x, at.rotate(tokens.heads)) for tokens in (query, key))
        return queries.heads @ keys.heads.transpose(-2, -1) + queries.added(keys)

    require.close(scores(shift), scores(0), "scores change when query and key both move", tolerance=1e-4)


@contract_check()
def a_method_of_its_own_tells_positions_apart(subject: Subject) -> None:
    """Where an encoding does something, it does something else at each of the first positions."""
    positions, x, heads = _drawn(subject, FULL[2])
    found = _Tokens(positions, torch.ones_like(x), torch.ones_like(heads)).effect()
    embedded, rotated = found.embedded[0], found.rotated[0].transpose(0, 1).flatten(1)
    distances = found.bias[0, :, -1].T  # what the last query sees
    methods = {"embed": embedded, "rotate": rotated, "bias": distances, "content_bias": distances}
    for method, rows in methods.items():
        if getattr(type(positions.encoding), method) is not getattr(PositionalEncoding, method):
            apart = torch.cdist(rows, rows) + torch.eye(positions.length, dtype=rows.dtype)
            same = (rows.diff(dim=0).abs() < 1e-9).all() if rows is distances else apart.min() < 1e-6
            require.that(not same, f"{method} gives two positions the same value")


@contract_check(FULL[1:])
def scores_change_between_two_tokens(subject: Subject, batch: PaddedBatch) -> None:
    """A bias for a query and a key depends on these two tokens alone."""
    encoding, last = subject.perturbed(), batch.mask.shape[1] - 1
    query, key = (_drawn(subject, batch, encoding) for _ in range(2))
    added = query.added(key)
    for number in range(last + 1):
        other_query, other_key = (_drawn(subject, batch, encoding) for _ in range(2))
        other_query.heads[:, :, last] = query.heads[:, :, last]
        other_key.heads[:, :, number] = key.heads[:, :, number]
        found, expected = other_query.added(other_key)[..., last, number], added[..., last, number]
        require.close(found, expected, "what is added to a score changes with other tokens")


@contract_check()
def rotation_keeps_lengths(subject: Subject) -> None:
    """A rotated head has the length that it had, or that length times one factor for all heads and positions.

    Such a factor is how YaRN scales attention (https://arxiv.org/abs/2309.00071, section 3.4).
    """
    positions, _, heads = _drawn(subject, FULL[2])
    factors = positions.rotate(heads).norm(dim=-1) / heads.norm(dim=-1)
    require.close(factors, factors.mean().expand_as(factors), "rotate changes the lengths of heads unequally")


def effect(positions: Positions, x: Tensor, heads: Tensor) -> tuple[Tensor, ...]:
    """Returns what the encoding of some positions does to embeddings and heads there, and to their scores."""
    return tuple(_Tokens(positions, x, heads).effect())


def everything(encoding: PositionalEncoding, x: Tensor, heads: int, batch: PaddedBatch) -> Tensor:
    """Returns everything that an encoding does to a padded batch, end to end."""
    rows, length, _ = x.shape
    given = _Tokens(batch.at(encoding), x, example(rows, heads, length, HEAD_WIDTH, dtype=x.dtype))
    return torch.cat([part.flatten() for part in given.effect()])
