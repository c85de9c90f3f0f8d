"""The contract of positional encodings, see plugformer.interfaces.position.

An encoding is also tried inside an attention, with checks of `plugformer_testing.module`.
"""

import torch
from torch import Tensor

from plugformer.errors import LengthError
from plugformer.interfaces import PositionalEncoding, Positions
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.placed_attention import attentions
from plugformer_testing.probes import FULL, PADDED, full
from plugformer_testing.subject import ENCODER, Subject

HEAD_WIDTH = 6


def _heads(subject: Subject, length: int, batch: int = 1) -> Tensor:
    return torch.randn(batch, subject.model.heads, length, HEAD_WIDTH, dtype=torch.float64)


def _added(queries: Tensor, keys: Tensor, query: Positions, key: Positions) -> Tensor:
    """Returns all that an encoding adds to the scores of heads, which are not scaled here."""
    total = torch.zeros(*queries.shape[:3], key.length, dtype=queries.dtype)
    encoding = query.encoding
    for part in (encoding.bias(query, key), encoding.content_bias(queries, keys, query, key)):
        total = total if part is None else total + part.to(total.dtype).expand(total.shape)
    return total


@contract_check(cases=(1, 3, 8))
def shapes(subject: Subject, heads: int) -> None:
    """Embeddings and heads keep their shape; a bias has a map for each head, a row for each query.

    Rotation takes any even head width. Keys may have fewer heads than queries: a bias from content takes
    groups of them.
    """
    encoding: PositionalEncoding = subject.perturbed(heads=heads, width=heads * HEAD_WIDTH)
    for batch in (FULL[0], FULL[2], PADDED[1]):
        (rows, length), at = batch.mask.shape, batch.at(encoding)
        x = torch.randn(rows, length, heads * HEAD_WIDTH, dtype=torch.float64)
        queries, maps = x.view(rows, length, heads, -1).transpose(1, 2), (rows, heads, length, length)
        found: list[tuple[str, Tensor | None, tuple[int, ...]]] = [
            ("embed", encoding.embed(x, at), x.shape),
            ("bias", encoding.bias(at, at), maps),
        ]
        for width in (2, 6, 10):
            wide = torch.randn(rows, heads, length, width, dtype=torch.float64)
            found.append((f"heads of width {width}, rotated,", at.rotate(wide), wide.shape))
        for groups in {1, heads}:
            bias = encoding.content_bias(queries, queries[:, :groups], at, at)
            found.append((f"content_bias of {groups} key heads", bias, maps))
        for name, output, expected in found:
            if output is not None:
                fits = output.shape == expected or (name == "bias" and output.shape == (1, *expected[1:]))
                require.that(
                    fits, f"the shape of {name} is {tuple(output.shape)}, expected {tuple(expected)}"
                )
                require.finite(output, f"{name}, which masks nothing,")


@contract_check(cases=(15, 16, 17, 40))
def long_sequences_work_or_are_refused(subject: Subject, length: int) -> None:
    """Up to the model's longest sequence everything works; beyond it works too, or is a LengthError."""
    at, heads = full(1, length).at(subject.perturbed(max_length=16)), _heads(subject, length)
    try:
        embedded = at.encoding.embed(subject.tokens(1, length), at)
        found = (embedded, at.rotate(heads), _added(heads, heads, at, at))
    except LengthError as error:
        require.that(length > 16, f"{length} tokens are refused, the model's longest is 16: {error}")
        return
    for output in found:
        require.finite(output, f"what is computed for a sequence of {length} tokens")


@contract_check(cases=(1, 5))
def scores_depend_on_distance(subject: Subject, shift: int) -> None:
    """With rotated heads and bias, the score of a query and a key depends on their distance alone."""
    encoding, queries, keys = subject.perturbed(), _heads(subject, 6), _heads(subject, 6)

    def scores(start: int) -> Tensor:
        at = full(1, 6).at(encoding, start)
        query, key = at.rotate(queries), at.rotate(keys)
        return query @ key.transpose(-2, -1) + _added(query, key, at, at)

    require.close(scores(shift), scores(0), "scores change when query and key both move", tolerance=1e-4)


@contract_check()
def the_order_of_tokens_matters(subject: Subject) -> None:
    """If it overrides a method, tokens read something else when the last of the sequence comes first."""
    x = subject.tokens(*FULL[2].mask.shape)
    methods = ("embed", "rotate", "bias", "content_bias")
    if all(getattr(subject.component, each) is getattr(PositionalEncoding, each) for each in methods):
        return
    for placed in attentions(subject, FULL[2], ENCODER):
        turned = placed.read(x.roll(1, 1)).roll(-1, 1)
        same = torch.allclose(turned, placed.read(x), atol=1e-9)
        require.that(not same, "tokens read the same whatever their order is")
