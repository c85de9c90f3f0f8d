"""The contract of feed-forward networks: see plugformer.interfaces.feed_forward."""

import torch
from torch import Tensor

from plugformer.interfaces import FeedForward
from plugformer_testing.check import check, fail, require, require_close, require_finite
from plugformer_testing.module import example
from plugformer_testing.subject import Subject


@check(((0, 24), (1, 24), (7, 24), (3, 1), (3, 35)))
def shapes(subject: Subject, shape: tuple[int, int]) -> None:
    """The output has the input's shape: for no token at all, for one, for odd widths."""
    network: FeedForward = subject.perturbed(width=shape[1])
    output = network(torch.randn(shape, dtype=torch.float64))
    require(output.shape == shape, f"the output has shape {tuple(output.shape)}, the input {shape}")
    require_finite(output, "the output is not finite")


@check((2, 9))
def each_token_is_alone(subject: Subject, count: int) -> None:
    """A token gives the same whatever other tokens there are."""
    network: FeedForward = subject.perturbed()
    x = _tokens(subject, count)
    alone = torch.cat([network(token[None]) for token in x])
    message = "a token gives something else alone: the network is not position-wise"
    require_close(alone, network(x), message)


@check((2, 9))
def tokens_do_not_exchange_gradients(subject: Subject, count: int) -> None:
    """No gradient flows from a token's output to another token."""
    network: FeedForward = subject.perturbed()
    x = _tokens(subject, count).requires_grad_()
    (gradient,) = torch.autograd.grad(network(x)[0].square().sum(), x)
    if not (gradient[1:].abs() < 1e-9).all():
        fail("a token's output has a gradient at another token: the network is not position-wise")


@check()
def the_order_of_tokens_does_not_matter(subject: Subject) -> None:
    """Another order of the tokens gives the same outputs in that order."""
    network: FeedForward = subject.perturbed()
    x = _tokens(subject, 6)
    require_close(network(x.flip(0)), network(x).flip(0), "outputs depend on the order of tokens")


@check()
def the_ffn_width_is_honored(subject: Subject) -> None:
    """A larger feed-forward width of the model makes the network larger."""
    small, large = (
        sum(parameter.numel() for parameter in subject.create(ffn_width=width).parameters())
        for width in (20, 40)
    )
    require(large > small, f"it has {small} parameters with feed-forward width 20, and {large} with 40")


@check()
def an_auxiliary_loss_is_a_scalar(subject: Subject) -> None:
    """If training leaves an auxiliary loss, that is a finite scalar with a gradient, even without tokens."""
    network: FeedForward = subject.perturbed().train()
    for count in (6, 0):
        network(_tokens(subject, count))
        loss = getattr(network, "auxiliary_loss", None)
        if loss is None:
            continue
        if not (isinstance(loss, Tensor) and loss.dim() == 0):
            fail(f"auxiliary_loss is {loss!r}, expected a scalar tensor")
        require_finite(loss, f"auxiliary_loss of {count} tokens is not finite")
        require(loss.requires_grad, "auxiliary_loss has no gradient: training cannot lower it")


@check()
def training_mode_changes_nothing(subject: Subject) -> None:
    """Dropout is the core's: training mode gives what evaluation mode gives."""
    network: FeedForward = subject.perturbed()
    x = _tokens(subject, 6)
    expected = network(x)
    require_close(network.train()(x), expected, "training mode gives other outputs than evaluation mode")


def _tokens(subject: Subject, count: int) -> Tensor:
    return torch.randn(count, subject.model.width, dtype=torch.float64)


def exercise(subject: Subject, network: FeedForward, dtype: torch.dtype) -> Tensor:
    """Runs a network on eleven tokens."""
    output: Tensor = network(example(11, subject.model.width, dtype=dtype))
    return output
