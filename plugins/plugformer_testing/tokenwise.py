"""The contracts of norms, feed-forward networks and residual connections, see plugformer.interfaces.layer."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from plugformer.interfaces import FeedForward, LayerContext, Residual
from plugformer.registry import Kind
from plugformer_testing import require
from plugformer_testing.contract import NotApplicable, contract_check
from plugformer_testing.probes import Function
from plugformer_testing.subject import PLACES, SUBLAYERS, Subject

_AXES = {Kind.NORM: (1, 2, 3), Kind.FEED_FORWARD: (2,), Kind.RESIDUAL: (3,)}

_STACKS = (("attention", "feed_forward"), SUBLAYERS)

_COMPUTE = {"attention": torch.sin, "cross_attention": torch.erf, "feed_forward": torch.atan}
_SHAPES = (
    *((24,), (0, 24), (1, 24), (7, 24), (3, 1), (3, 35)),
    *((2, 3, 24), (1, 1, 24), (2, 0, 24), (0, 3, 24), (2, 3, 1), (2, 3, 35)),
)


@contract_check(_SHAPES)
def shapes(subject: Subject, shape: tuple[int, ...]) -> None:
    """The output has the input's shape: in any batch, for no token at all, for one, for odd widths."""
    if len(shape) not in _AXES[subject.kind]:
        raise NotApplicable(f"hidden states have {_AXES[subject.kind]} axes")
    module, x = subject.perturbed(width=shape[-1]), torch.randn(shape, dtype=torch.float64)
    output = module(x, sublayers(SUBLAYERS)) if subject.kind is Kind.RESIDUAL else module(x)
    require.that(output.shape == shape, f"the output has shape {tuple(output.shape)}, the input {shape}")
    require.finite(output, "the output")


@contract_check(((2, 1), (1, 2), (3, 5)), Kind.NORM, Kind.FEED_FORWARD)
def each_token_is_alone(subject: Subject, shape: tuple[int, int]) -> None:
    """A token gives the same whatever the other tokens are, and no gradient flows to them."""
    module, x = _with_states(subject, *shape)
    output = module(x.requires_grad_()).flatten(0, -2)
    alone = torch.cat([module(token[None]) for token in x.flatten(0, -2)])
    require.close(alone, output, "a token gives something else alone than with others")
    (gradient,) = torch.autograd.grad(output[0].square().sum(), x)
    others = gradient.flatten(0, -2)[1:]
    require.that((others.abs() < 1e-9).all(), "the output of a token has a gradient at another token")


@contract_check((None,), Kind.NORM, Kind.FEED_FORWARD)
def training_mode_changes_nothing(subject: Subject) -> None:
    """Training mode gives the same as evaluation mode: dropout is up to the core."""
    module, x = _with_states(subject, 2, 3)
    expected = module(x)
    require.close(module.train()(x), expected, "training mode gives other outputs than evaluation mode")


@contract_check((0.1, 10.0, 1000.0), Kind.NORM)
def the_scale_is_taken_out(subject: Subject, factor: float) -> None:
    """A token times a positive number gives the same as the token, up to the epsilon in the root."""
    norm, x = _with_states(subject, 1, 4)
    require.close(norm(factor * 10 * x), norm(10 * x), "the output changes with the scale", tolerance=1e-3)


@contract_check((None,), Kind.NORM)
def directions_are_kept_apart(subject: Subject) -> None:
    """Different tokens give different outputs, and every coordinate counts."""
    norm, x = subject.perturbed(), subject.tokens(1)
    changes = norm(x + torch.eye(x.shape[1], dtype=x.dtype)) - norm(x)
    reached = (changes.abs().amax(dim=-1) > 1e-6).all()
    require.that(reached, "a coordinate of the input does not reach the output")


@contract_check((None,), Kind.NORM)
def constant_tokens_are_harmless(subject: Subject) -> None:
    """Tokens that are zero or constant give no NaN, forward or backward."""
    x = torch.tensor([[0.0], [1.0], [-3.0]], dtype=torch.float64).repeat(1, subject.model.width)
    output = subject.perturbed()(x.requires_grad_())
    require.finite(output, "the output of a constant token")
    (gradient,) = torch.autograd.grad(output.sum(), x)
    require.finite(gradient, "the gradient of a constant token")


@contract_check((None,), Kind.FEED_FORWARD)
def the_ffn_width_is_honored(subject: Subject) -> None:
    """A larger feed-forward width of the model makes the network larger."""
    networks = [subject.create(ffn_width=width) for width in (20, 40)]
    small, large = (sum(parameter.numel() for parameter in network.parameters()) for network in networks)
    require.that(large > small, f"it has {small} parameters with feed-forward width 20, and {large} with 40")


@contract_check((None,), Kind.FEED_FORWARD)
def an_auxiliary_loss_is_a_scalar(subject: Subject) -> None:
    """If training leaves an auxiliary loss, that is a finite scalar with a gradient, even without tokens."""
    network: FeedForward = subject.perturbed().train()
    for count in (6, 0):
        network(subject.tokens(count))
        loss = getattr(network, "auxiliary_loss", None)
        if loss is not None:
            scalar = isinstance(loss, Tensor) and loss.dim() == 0 and loss.requires_grad
            require.that(scalar, f"auxiliary_loss is {loss!r}, expected a scalar tensor with a gradient")
            require.finite(loss, f"auxiliary_loss of {count} tokens")


@contract_check(product((False, True), _STACKS), Kind.RESIDUAL)
def each_sublayer_runs_once(subject: Subject, case: tuple[bool, Sequence[str]]) -> None:
    """Each sublayer runs once, on hidden states of the stream's shape. In training it may be left out."""
    training, names = case
    residual: Residual = subject.perturbed(sublayers=names).train(training)
    x, run = subject.tokens(2, 3), sublayers(names)
    residual(x, run)
    for name, sublayer in run.items():
        count = len(sublayer.given)
        require.that(count == 1 or (training and not count), f"{name} runs {count} times, expected once")
        for hidden in sublayer.given:
            require.equal(tuple(hidden.shape), tuple(x.shape), f"the shape that {name} is given")


@contract_check(_STACKS, Kind.RESIDUAL)
def every_sublayer_counts(subject: Subject, names: Sequence[str]) -> None:
    """The output of each sublayer changes the stream."""
    residual, x = subject.perturbed(sublayers=names), subject.tokens(2, 3)
    expected = residual(x, sublayers(names))
    for name in names:
        changed = residual(x, {**sublayers(names), name: Function(torch.cos)})
        same = torch.allclose(changed, expected, atol=1e-9)
        require.that(not same, f"the output of {name} makes no difference")


@contract_check(_STACKS, Kind.RESIDUAL)
def the_stream_goes_on(subject: Subject, names: Sequence[str]) -> None:
    """If sublayers put out zeros, the stream before the layer still decides the one after it."""
    residual, x = subject.perturbed(sublayers=names), subject.tokens(2, 3).requires_grad_()
    output = residual(x, {name: Function(torch.zeros_like) for name in names})
    weights = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).view(output.shape)
    total = (output * weights).sum() + 0 * x.sum()  # which has a gradient in any case
    (gradient,) = torch.autograd.grad(total, x)
    reached = (gradient.abs() > 1e-9).any(dim=-1).all()
    require.that(reached, "the stream reaches the output only through sublayers")


@contract_check(_STACKS, Kind.RESIDUAL)
def tokens_stay_apart(subject: Subject, names: Sequence[str]) -> None:
    """Only sublayers exchange anything between tokens or sequences."""
    residual, x = subject.perturbed(sublayers=names), subject.tokens(2, 3)
    alone = [residual(token[None, None], sublayers(names)) for token in x.flatten(0, 1)]
    expected = residual(x, sublayers(names)).flatten(0, 1)
    require.close(torch.cat(alone, dim=1)[0], expected, "a token's stream depends on other tokens")


@contract_check(PLACES, Kind.RESIDUAL)
def says_what_it_needs(subject: Subject, place: LayerContext) -> None:
    """`final_norm` is true or false, and `gain` a finite number above zero, in any place of a model."""
    residual: Residual = subject.create(place=place)
    final, gain = residual.final_norm, residual.gain
    require.that(isinstance(final, bool), f"final_norm is {final!r}, expected a bool")
    sound = isinstance(gain, int | float) and math.isfinite(gain) and gain > 0
    require.that(sound, f"gain is {gain!r}, expected a finite number above zero")


def sublayers(names: Sequence[str]) -> dict[str, Function]:
    """Returns sublayers that differ and compute each number by itself."""
    return {name: Function(_COMPUTE[name]) for name in names}


def _with_states(subject: Subject, batch: int, length: int) -> tuple[Any, Tensor]:
    """Returns the component and hidden states as it receives them: a batch, or tokens end to end."""
    x = subject.tokens(batch, length)
    return subject.perturbed(), x.flatten(0, 1) if subject.kind is Kind.FEED_FORWARD else x
