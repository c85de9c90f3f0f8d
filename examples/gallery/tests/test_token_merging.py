"""Tokens that are merged are computed as their mean and share the result."""

import torch
from plugformer_gallery.token_merging import TokenMerging, merge
from torch import nn

from plugformer.interfaces import ResidualContext, Sublayer
from plugformer_testing import parametrize_with_checks


@parametrize_with_checks("residual/token_merging")
def test_token_merging(check):
    check()


ANGLES = torch.tensor([[0.0, 0.1, 1.5, 0.7, 3.0, 3.1, 9.0]])
X = torch.stack([ANGLES.cos(), ANGLES.sin()], dim=-1)
REAL = torch.tensor([[True] * 6 + [False]])


def test_the_most_similar_pairs_are_merged() -> None:
    """Of the tokens 1, 3 and 5, two are near tokens 0 and 4; token 3 is farther from all others."""
    assert merge(X, REAL, 0.5).tolist() == [[0, 0, 2, 3, 4, 4, 6]]
    assert merge(X, REAL, 1.0).tolist() == [[0, 0, 2, 0, 4, 4, 6]]
    assert merge(X, REAL, 0.0).tolist() == [[0, 1, 2, 3, 4, 5, 6]]


def test_merged_tokens_share_a_result() -> None:
    given = []

    def square(hidden: torch.Tensor, tokens: torch.Tensor, most: int | None) -> torch.Tensor:
        given.append(tokens.tolist())
        return hidden.square() * tokens[..., None]

    context = ResidualContext(width=2, heads=1, ffn_width=2, sublayers=("attention",), norm=nn.Identity)
    output = TokenMerging(context)(X, {"attention": Sublayer(square, real=REAL)}) - X
    assert given == [[[True, False, True, True, True, False, False]]]
    first, last = X[0, :2].mean(0).square(), X[0, 4:6].mean(0).square()
    expected = torch.stack([first, first, X[0, 2].square(), X[0, 3].square(), last, last])
    torch.testing.assert_close(output[0, :6], expected)
