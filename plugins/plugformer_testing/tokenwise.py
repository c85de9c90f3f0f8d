"""The contracts of what computes token by token: of norms, feed-forward networks and residual connections.

See plugformer.interfaces.norm, plugformer.interfaces.feed_forward and plugformer.interfaces.residual.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from plugformer.interfaces import FeedForward, LayerContext, Norm, Residual
from plugformer.registry import Kind
from plugformer_testing.check import NotApplicable, check, fail, require, require_close, require_finite
from plugformer_testing.probes import Function
from plugformer_testing.subject import PLACES, SUBLAYERS, Subject

ALONE = ("attention", "feed_forward")
"""What there is in a layer that reads no other stack."""

_AXES = {Kind.NORM: (1, 2, 3), Kind.FEED_FORWARD: (2,), Kind.RESIDUAL: (3,)}
"""How many axes hidden states may have."""

_ALONE = {
    Kind.NORM: "the norm is not over the last axis only",
    Kind.FEED_FORWARD: "the network is not position-wise",
}
_NORM, _FEED_FORWARD, _RESIDUAL = (Kind.NORM,), (Kind.FEED_FORWARD,), (Kind.RESIDUAL,)
_COMPUTE = {"attention": torch.sin, "cross_attention": torch.erf, "feed_forward": torch.atan}
_SHAPES = (
    *((24,), (0, 24), (1, 24), (7, 24), (3, 1), (3, 35)),
    *((2, 3, 24), (1, 1, 24), (2, 0, 24), (0, 3, 24), (2, 3, 1), (2, 3, 35)),
)


@check(_SHAPES)
def shapes(subject: Subject, shape: tuple[int, ...]) -> None:
    """The output has the input's shape: in any batch, for no token at all, for one, for odd widths."""
    if len(shape) not in _AXES[subject.kind]:
        raise NotApplicable(f"hidden states have {_AXES[subject.kind]} axes")
    module, x = subject.perturbed(width=shape[-1]), torch.randn(shape, dtype=torch.float64)
    output = module(x, sublayers(SUBLAYERS)) if subject.kind is Kind.RESIDUAL else module(x)
    require(output.shape == shape, f"the output has shape {tuple(output.shape)}, the input {shape}")
    require_finite(output, "the output is not finite")


@check(((2, 1), (1, 2), (3, 5)), kinds=_NORM + _FEED_FORWARD)
def each_token_is_alone(subject: Subject, shape: tuple[int, int]) -> None:
    """A token gives the same whatever other tokens there are: only the last axis is computed over."""
    module: nn.Module = subject.perturbed()
    x = _given(subject, *shape)
    alone = torch.cat([module(token[None]) for token in x.flatten(0, -2)])
    message = f"a token gives something else alone: {_ALONE[subject.kind]}"
    require_close(alone, module(x).flatten(0, -2), message)


@check(kinds=_NORM + _FEED_FORWARD)
def training_mode_changes_nothing(subject: Subject) -> None:
    """Training mode gives what evaluation mode gives: dropout is the core's, and no batch is remembered."""
    module: nn.Module = subject.perturbed()
    x = _given(subject, 2, 3)
    expected = module(x)
    require_close(module.train()(x), expected, "training mode gives other outputs than evaluation mode")


@check((0.1, 10.0, 1000.0), kinds=_NORM)
def the_scale_is_taken_out(subject: Subject, factor: float) -> None:
    """A token times a positive number gives what the token gives, up to the epsilon in the root."""
    norm: Norm = subject.perturbed()
    x = 10 * subject.tokens(4)
    what = f"the output changes when the input is multiplied by {factor:g}"
    require_close(norm(factor * x), norm(x), f"{what}: its scale is not taken out", tolerance=1e-3)


@check(kinds=_NORM)
def directions_are_kept_apart(subject: Subject) -> None:
    """Different tokens give different outputs, and every coordinate counts."""
    norm: Norm = subject.perturbed()
    x = subject.tokens(1)
    y = x + torch.eye(x.shape[1], dtype=x.dtype)
    changes = (norm(y) - norm(x)).abs().amax(dim=-1)
    require(bool((changes > 1e-6).all()), "a coordinate of the input does not reach the output")


@check(kinds=_NORM)
def constant_tokens_are_harmless(subject: Subject) -> None:
    """Tokens that are zero or constant give no NaN, forward or backward."""
    norm: Norm = subject.perturbed()
    x = torch.tensor([[0.0], [1.0], [-3.0]], dtype=torch.float64).repeat(1, subject.model.width)
    output = norm(x.requires_grad_())
    require_finite(output, "a constant token gives NaN or infinity")
    (gradient,) = torch.autograd.grad(output.sum(), x)
    require_finite(gradient, "a constant token has a gradient of NaN or infinity")


@check((2, 9), kinds=_FEED_FORWARD)
def tokens_do_not_exchange_gradients(subject: Subject, count: int) -> None:
    """No gradient flows from a token's output to another token."""
    network: FeedForward = subject.perturbed()
    x = subject.tokens(count).requires_grad_()
    (gradient,) = torch.autograd.grad(network(x)[0].square().sum(), x)
    if not (gradient[1:].abs() < 1e-9).all():
        fail("a token's output has a gradient at another token: the network is not position-wise")


@check(kinds=_FEED_FORWARD)
def the_order_of_tokens_does_not_matter(subject: Subject) -> None:
    """Another order of the tokens gives the same outputs in that order."""
    network: FeedForward = subject.perturbed()
    x = subject.tokens(6)
    require_close(network(x.flip(0)), network(x).flip(0), "outputs depend on the order of tokens")


@check(kinds=_FEED_FORWARD)
def the_ffn_width_is_honored(subject: Subject) -> None:
    """A larger feed-forward width of the model makes the network larger."""
    small, large = (
        sum(parameter.numel() for parameter in subject.create(ffn_width=width).parameters())
        for width in (20, 40)
    )
    require(large > small, f"it has {small} parameters with feed-forward width 20, and {large} with 40")


@check(kinds=_FEED_FORWARD)
def an_auxiliary_loss_is_a_scalar(subject: Subject) -> None:
    """If training leaves an auxiliary loss, that is a finite scalar with a gradient, even without tokens."""
    network: FeedForward = subject.perturbed().train()
    for count in (6, 0):
        network(subject.tokens(count))
        loss = getattr(network, "auxiliary_loss", None)
        if loss is None:
            continue
        if not (isinstance(loss, Tensor) and loss.dim() == 0):
            fail(f"auxiliary_loss is {loss!r}, expected a scalar tensor")
        require_finite(loss, f"auxiliary_loss of {count} tokens is not finite")
        require(loss.requires_grad, "auxiliary_loss has no gradient: training cannot lower it")


@check((ALONE, SUBLAYERS), kinds=_RESIDUAL)
def each_sublayer_runs_once(subject: Subject, names: Sequence[str]) -> None:
    """In evaluation mode each sublayer there is runs once, on hidden states of the stream's shape."""
    _require_runs(subject, names, training=False)


@check((ALONE, SUBLAYERS), kinds=_RESIDUAL)
def no_sublayer_runs_twice_in_training(subject: Subject, names: Sequence[str]) -> None:
    """In training mode a sublayer may be left out, but runs at most once."""
    _require_runs(subject, names, training=True)


@check((ALONE, SUBLAYERS), kinds=_RESIDUAL)
def every_sublayer_counts(subject: Subject, names: Sequence[str]) -> None:
    """What any of the sublayers puts out changes the stream."""
    residual: Residual = subject.perturbed(sublayers=names)
    x = subject.tokens(2, 3)
    expected = residual(x, sublayers(names))
    for name in names:
        changed = {**sublayers(names), name: Function(lambda hidden: hidden.cos())}
        if torch.allclose(residual(x, changed), expected, atol=1e-9):
            fail(f"it makes no difference what {name} puts out")


@check((ALONE, SUBLAYERS), kinds=_RESIDUAL)
def the_stream_goes_on(subject: Subject, names: Sequence[str]) -> None:
    """Where sublayers put out nothing, the stream before the layer still decides the one after it."""
    residual: Residual = subject.perturbed(sublayers=names)
    x = subject.tokens(2, 3).requires_grad_()
    output = residual(x, {name: Function(torch.zeros_like) for name in names})
    weights = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).view(output.shape)
    if not output.requires_grad:
        fail("the stream does not reach the output but through sublayers")
    (gradient,) = torch.autograd.grad((output * weights).sum(), x, allow_unused=True)
    reached = gradient is not None and bool((gradient.abs() > 1e-9).any(dim=-1).all())
    require(reached, "the stream does not reach the output but through sublayers")


@check((ALONE, SUBLAYERS), kinds=_RESIDUAL)
def tokens_stay_apart(subject: Subject, names: Sequence[str]) -> None:
    """Only sublayers exchange anything between tokens or sequences."""
    residual: Residual = subject.perturbed(sublayers=names)
    x = subject.tokens(2, 3)
    alone = [residual(token[None, None], sublayers(names)) for token in x.flatten(0, 1)]
    message = "a token's stream depends on other tokens though no sublayer reads them"
    require_close(torch.cat(alone, dim=1)[0], residual(x, sublayers(names)).flatten(0, 1), message)


@check(PLACES, kinds=_RESIDUAL)
def says_what_it_needs(subject: Subject, place: LayerContext) -> None:
    """`final_norm` is true or false, and `gain` a finite number above zero, in any place of a model."""
    residual: Residual = subject.create(place=place)
    require(isinstance(residual.final_norm, bool), f"final_norm is {residual.final_norm!r}, expected a bool")
    gain = residual.gain
    if not (isinstance(gain, int | float) and math.isfinite(gain) and gain > 0):
        fail(f"gain is {gain!r}, expected a finite number above zero")


def _require_runs(subject: Subject, names: Sequence[str], *, training: bool) -> None:
    residual: Residual = subject.perturbed(sublayers=names).train(training)
    x, run = subject.tokens(2, 3), sublayers(names)
    residual(x, run)
    for name, sublayer in run.items():
        count = len(sublayer.given)
        require(count < 2, f"{name} runs {count} times: what it appends to a cache is there {count} times")
        require(training or count == 1, f"{name} does not run")
        for hidden in sublayer.given:
            if hidden.shape != x.shape:
                fail(f"{name} is given the shape {tuple(hidden.shape)}, the stream has {tuple(x.shape)}")


def sublayers(names: Sequence[str]) -> dict[str, Function]:
    """Returns sublayers that differ, each of which looks at one number at a time."""
    return {name: Function(_COMPUTE[name]) for name in names}


def _given(subject: Subject, batch: int, length: int) -> Tensor:
    """Returns hidden states as the component is given them: those of a batch, or tokens end to end."""
    x = subject.tokens(batch, length)
    return x.flatten(0, 1) if subject.kind is Kind.FEED_FORWARD else x
