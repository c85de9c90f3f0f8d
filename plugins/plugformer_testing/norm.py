"""The contract of norms: see plugformer.interfaces.norm."""

import torch
from torch import Tensor

from plugformer.interfaces import Norm
from plugformer_testing.check import check, require, require_close, require_finite
from plugformer_testing.module import example
from plugformer_testing.subject import Subject


@check(((24,), (0, 24), (1, 24), (5, 24), (2, 3, 24), (3, 1), (3, 35)))
def shapes(subject: Subject, shape: tuple[int, ...]) -> None:
    """The output has the input's shape: for any number of axes before the last, for none, for odd widths."""
    norm: Norm = subject.perturbed(width=shape[-1])
    output = norm(torch.randn(shape, dtype=torch.float64))
    require(output.shape == shape, f"the output has shape {tuple(output.shape)}, the input {shape}")
    require_finite(output, "the output is not finite")


@check(((2, 1), (1, 2), (3, 5)))
def each_token_is_alone(subject: Subject, shape: tuple[int, int]) -> None:
    """A token gives the same whatever other tokens there are: only the last axis is normalized."""
    norm: Norm = subject.perturbed()
    x = torch.randn(*shape, subject.model.width, dtype=torch.float64)
    alone = torch.stack([norm(token) for token in x.flatten(0, 1)])
    message = "a token gives something else alone: the norm is not over the last axis only"
    require_close(alone, norm(x).flatten(0, 1), message)


@check()
def training_mode_changes_nothing(subject: Subject) -> None:
    """There is nothing to learn from a batch: training mode gives what evaluation mode gives."""
    norm: Norm = subject.perturbed()
    x = torch.randn(2, 3, subject.model.width, dtype=torch.float64)
    expected = norm(x)
    require_close(norm.train()(x), expected, "training mode gives other outputs than evaluation mode")


@check((0.1, 10.0, 1000.0))
def the_scale_is_taken_out(subject: Subject, factor: float) -> None:
    """A token times a positive number gives what the token gives, up to the epsilon in the root."""
    norm: Norm = subject.perturbed()
    x = 10 * torch.randn(4, subject.model.width, dtype=torch.float64)
    what = f"the output changes when the input is multiplied by {factor:g}"
    require_close(norm(factor * x), norm(x), f"{what}: its scale is not taken out", tolerance=1e-3)


@check()
def directions_are_kept_apart(subject: Subject) -> None:
    """Different tokens give different outputs, and every coordinate counts."""
    norm: Norm = subject.perturbed()
    x = torch.randn(1, subject.model.width, dtype=torch.float64)
    y = x.expand(subject.model.width, -1) + torch.eye(subject.model.width, dtype=torch.float64)
    changes = (norm(y) - norm(x)).abs().amax(dim=-1)
    require(bool((changes > 1e-6).all()), "a coordinate of the input does not reach the output")


@check()
def constant_tokens_are_harmless(subject: Subject) -> None:
    """Tokens that are zero or constant give no NaN, forward or backward."""
    norm: Norm = subject.perturbed()
    x = torch.tensor([0.0, 1.0, -3.0], dtype=torch.float64)[:, None].expand(3, subject.model.width).clone()
    output = norm(x.requires_grad_())
    require_finite(output, "a constant token gives NaN or infinity")
    (gradient,) = torch.autograd.grad(output.sum(), x)
    require_finite(gradient, "a constant token has a gradient of NaN or infinity")


def exercise(subject: Subject, norm: Norm, dtype: torch.dtype) -> Tensor:
    """Normalizes two rows of three tokens."""
    output: Tensor = norm(example(2, 3, subject.model.width, dtype=dtype))
    return output
