"""The contracts of norms, feed-forward networks and residual connections, see plugformer.interfaces.layer."""

from collections.abc import Sequence
from itertools import product
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from plugformer.interfaces import (
    BIDIRECTIONAL,
    Context,
    FeedForward,
    Norm,
    PositionalEncoding,
    Positions,
    Residual,
)
from plugformer.registry import Kind
from plugformer_testing import architecture, require
from plugformer_testing.contract import contract_check
from plugformer_testing.probes import PADDED, Function
from plugformer_testing.small import CASES, EncodedCase
from plugformer_testing.subject import DECODER, ENCODER, SUBLAYERS, Subject

_AXES = {Kind.NORM: (1, 2, 3), Kind.FEED_FORWARD: (3,), Kind.RESIDUAL: (3,)}

_STACKS = (("attention", "feed_forward"), SUBLAYERS)

_MODELS = (
    *(("plugformer:encoder-decoder", CASES[0]), ("plugformer:decoder-only", CASES[1])),
    ("plugformer:encoder-only", CASES[3]),
)
_TAKES = ("all", "by token", "by sequence")
_COMPUTE = {"attention": torch.sin, "cross_attention": torch.erf, "feed_forward": torch.atan}
_SHAPES = (
    *((24,), (0, 24), (1, 24), (7, 24), (3, 1), (3, 35)),
    *((2, 3, 24), (1, 1, 24), (2, 0, 24), (0, 3, 24), (2, 3, 1), (2, 3, 35)),
)


@contract_check(cases=_SHAPES)
def shapes(subject: Subject, shape: tuple[int, ...]) -> None:
    """The output has the input's shape: in any batch, for no token at all, for one, for odd widths."""
    if len(shape) not in _AXES[subject.kind]:
        pytest.skip(f"hidden states have {_AXES[subject.kind]} axes")
    module, x = subject.perturbed(width=shape[-1]), torch.randn(shape, dtype=torch.float64)
    output = compute(module, x)
    require.that(output.shape == shape, f"the output has shape {tuple(output.shape)}, the input {shape}")
    require.finite(output, "the output")


@contract_check(Kind.NORM, Kind.FEED_FORWARD, cases=((2, 1), (1, 2), (3, 5)))
def each_token_is_alone(subject: Subject, shape: tuple[int, int]) -> None:
    """A token gives the same whatever the other tokens are, and no gradient flows to them."""
    module, x = subject.perturbed(), subject.tokens(*shape).requires_grad_()
    output = compute(module, x).flatten(0, 1)
    alone = torch.cat([compute(module, token[None, None]) for token in x.flatten(0, 1)])[:, 0]
    require.close(alone, output, "a token gives something else alone than with others")
    (gradient,) = torch.autograd.grad(output[0].square().sum(), x)
    others = gradient.flatten(0, 1)[1:]
    require.that((others.abs() < 1e-9).all(), "the output of a token has a gradient at another token")


@contract_check(Kind.NORM, Kind.FEED_FORWARD)
def training_mode_changes_nothing(subject: Subject) -> None:
    """Training mode gives the same as evaluation mode: dropout is up to the core."""
    module, x = subject.perturbed(), subject.tokens(2, 3)
    expected = compute(module, x)
    found = compute(module.train(), x)
    require.close(found, expected, "training mode gives other outputs than evaluation mode")


@contract_check(Kind.NORM)
def constant_tokens_are_harmless(subject: Subject) -> None:
    """Tokens that are zero or constant give no NaN, forward or backward."""
    x = torch.tensor([[0.0], [1.0], [-3.0]], dtype=torch.float64).repeat(1, subject.model.width)
    output = subject.perturbed()(x.requires_grad_())
    require.finite(output, "the output of a constant token")
    (gradient,) = torch.autograd.grad(output.sum(), x)
    require.finite(gradient, "the gradient of a constant token")


@contract_check(Kind.FEED_FORWARD)
def the_ffn_width_is_honored(subject: Subject) -> None:
    """A larger feed-forward width of the model makes the network larger."""
    networks = [subject.create(ffn_width=width) for width in (20, 40)]
    small, large = (sum(parameter.numel() for parameter in network.parameters()) for network in networks)
    require.that(large > small, f"it has {small} parameters with feed-forward width 20, and {large} with 40")


@contract_check(Kind.FEED_FORWARD)
def an_auxiliary_loss_is_a_scalar(subject: Subject) -> None:
    """If training leaves an auxiliary loss, that is a finite scalar with a gradient, also of no token.

    Padding does not change it.
    """
    network, mask = subject.perturbed().train(), PADDED[1].mask
    x = subject.tokens(*mask.shape)
    for hidden, real in ((x[mask][None], None), (x, mask), (x[:, :0], None)):
        count = hidden.shape[1]
        compute(network, hidden, real)
        loss = getattr(network, "auxiliary_loss", None)
        if loss is None:
            continue
        scalar = isinstance(loss, Tensor) and loss.dim() == 0 and loss.requires_grad
        require.that(scalar, f"auxiliary_loss is {loss!r}, expected a scalar tensor with a gradient")
        require.finite(loss, f"auxiliary_loss of {count} tokens")
        if real is None and count:
            expected = loss
        elif count:
            require.close(loss, expected, "auxiliary_loss differs with padding (see `Context.real`)")


@contract_check(Kind.RESIDUAL, cases=product((False, True), _STACKS))
def each_sublayer_runs_once(subject: Subject, case: tuple[bool, Sequence[str]]) -> None:
    """Each sublayer runs once, on hidden states of the stream's shape. In training it may be left out."""
    training, names = case
    residual: Residual = subject.perturbed(sublayers=names).train(training)
    x = subject.tokens(2, 3)
    run = sublayers(names, x)
    residual(x, run)
    for name, sublayer in run.items():
        count = len(sublayer.given)
        require.that(count == 1 or (training and not count), f"{name} runs {count} times, expected once")
        for hidden in sublayer.given:
            require.equal(tuple(hidden.shape), tuple(x.shape), f"the shape that {name} is given")


@contract_check(Kind.RESIDUAL, cases=_STACKS)
def every_sublayer_counts(subject: Subject, names: Sequence[str]) -> None:
    """The output of each sublayer changes the stream."""
    residual, x = subject.perturbed(sublayers=names), subject.tokens(4, 16)
    expected, real = residual(x, sublayers(names, x)), x.new_ones(4, 16, dtype=torch.bool)
    for name in names:
        changed = residual(x, {**sublayers(names, x), name: Function(torch.cos, real)})
        same = torch.allclose(changed, expected, atol=1e-9)
        require.that(not same, f"the output of {name} makes no difference")


@contract_check(Kind.RESIDUAL, cases=_STACKS)
def tokens_stay_apart(subject: Subject, names: Sequence[str]) -> None:
    """Only sublayers exchange anything between tokens, or a choice by sequence between those of one."""
    residual, x = subject.perturbed(sublayers=names), subject.tokens(2, 8)
    together = residual(x, sublayers(names, x))
    if residual.takes == "by sequence":
        pieces, what = x.split(1), "a sequence's stream depends on other sequences"
    else:
        pieces, what = x.reshape(-1, 1, 1, x.shape[2]).unbind(), "a token's stream depends on other tokens"
    alone = [residual(piece, sublayers(names, piece)) for piece in pieces]
    require.close(torch.cat(alone).view_as(together), together, what)


@contract_check(Kind.RESIDUAL, cases=product((False, True), _STACKS))
def takes_what_it_says(subject: Subject, case: tuple[bool, Sequence[str]]) -> None:
    """If it gives sublayers a mask of tokens to take, `takes` says what the choice depends on."""
    training, names = case
    residual: Residual = subject.perturbed(sublayers=names).train(training)
    require.that(residual.takes in _TAKES, f"takes is {residual.takes!r}, expected one of {_TAKES}")
    x = subject.tokens(2, 8)
    run = sublayers(names, x)
    residual(x, run)
    for name, sublayer in run.items():
        for tokens, most in sublayer.taken:
            some = tokens is not None
            require.that(
                not some or residual.takes != "all", f"{name} takes some tokens, but `takes` is 'all'"
            )
            counted = 0 if tokens is None else int(tokens.sum(dim=1).max())
            require.that(
                most is None or most >= counted, f"{name} takes {counted} tokens, but `most` is {most}"
            )


@contract_check(Kind.RESIDUAL, cases=_MODELS)
def models_keep_their_contract(subject: Subject, case: tuple[str, EncodedCase]) -> None:
    """In a model, what sublayers take depends neither on padding, nor on what follows, nor on steps."""
    name, examples = case
    places = [ENCODER] * ("encoder" in name) + [DECODER] * ("decoder" in name)
    made: list[Residual] = [subject.at(place).create() for place in places]
    if all(residual.takes == "all" for residual in made):
        return
    architecture.check_residual(name, examples, subject.component, subject.options)


def sublayers(names: Sequence[str], x: Tensor, real: Tensor | None = None) -> dict[str, Function]:
    """Returns sublayers that differ and compute each number by itself; all tokens of `x` are real if None."""
    real = x.new_ones(x.shape[:2], dtype=torch.bool) if real is None else real
    return {name: Function(_COMPUTE[name], real) for name in names}


def compute(module: Any, x: Tensor, real: Tensor | None = None) -> Tensor:
    """Returns the output of a norm, a network or a residual connection; all tokens are real if None."""
    if isinstance(module, Norm):
        output = module(x)
    elif isinstance(module, FeedForward):
        at = Positions.of(x.shape[1], PositionalEncoding(), real)
        output = module(x, Context(at, at, view=BIDIRECTIONAL))
    else:
        output = module(x, sublayers(SUBLAYERS, x, real))
    require.shaped(output, tuple(x.shape), "its output, as its input,")
    return cast("Tensor", output)
