"""The cross-entropy of a linear map, without the scores of all targets in memory."""

from contextlib import nullcontext
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

SCORES = 2**23
"""How many scores are computed at a time: 32 MB of float32, enough for products at full speed."""


def linear_cross_entropy(
    hidden: Float[Tensor, "targets width"],
    weight: Float[Tensor, "outputs width"],
    targets: Int[Tensor, " targets"],
    *,
    bias: Float[Tensor, " outputs"] | None = None,
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Returns the summed cross-entropy, in nats, of the scores `hidden @ weight.T + bias`.

    Equal to `torch.nn.functional.cross_entropy(..., reduction="sum")` of these scores. They are computed a
    piece at a time and turned in place into their own gradient, softmax minus target, so that memory does not
    grow with targets times outputs: Cut Your Losses in Large-Vocabulary Language Models, Wijmans et al. 2024,
    section 3, https://arxiv.org/abs/2411.09009, describes the problem. There are no second derivatives.

    Args:
        hidden: What the scores are computed from.
        weight: A row for each output.
        targets: The right outputs.
        bias: Added to the scores.
        label_smoothing: Share of each target that is spread evenly over all outputs.
    """
    rows = max(SCORES // len(weight), 1)
    if torch.is_grad_enabled():
        total: Tensor = _Gradients.apply(hidden, weight, bias, targets, label_smoothing, rows)
        return total
    losses = []
    for some, right in zip(hidden.split(rows), targets.split(rows), strict=True):
        scores = _precise(functional.linear(some, weight, bias))
        losses.append(
            functional.cross_entropy(scores, right, reduction="sum", label_smoothing=label_smoothing)
        )
    return torch.stack(losses).sum()


class _Gradients(torch.autograd.Function):
    """The loss; the gradients that are needed are computed with it, and scaled in the backward pass."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        hidden, weight, bias, targets, smoothing, rows = inputs
        for_hidden, for_weight, for_bias, *_ = ctx.needs_input_grad
        of_weight = None
        of_bias = torch.zeros_like(bias) if for_bias else None
        losses, of_hidden = [], []
        for some, right in zip(hidden.split(rows), targets.split(rows), strict=True):
            scores = functional.linear(some, weight, bias)
            loss, of_scores = _loss_and_gradient(_precise(scores), right[:, None], smoothing)
            losses.append(loss)
            half = scores.dtype == torch.float16  # too small for much of this, before losses are scaled
            of_scores = of_scores if half else of_scores.to(scores.dtype)
            with torch.autocast(scores.device.type, enabled=False) if half else nullcontext():
                if for_hidden:
                    of_hidden.append(of_scores @ (weight.float() if half else weight))
                if for_weight:
                    product = of_scores.T @ (some.float() if half else some)
                    product = product if half else product.to(weight.dtype)
                    of_weight = product if of_weight is None else of_weight.add_(product)
            if of_bias is not None:
                of_bias = of_bias + of_scores.sum(dim=0)
        gradient = None
        if for_hidden:
            gradient = torch.cat(of_hidden)
            gradient = gradient.to(torch.promote_types(gradient.dtype, hidden.dtype))
        ctx.save_for_backward(gradient, of_weight, of_bias)
        return torch.stack(losses).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_total: Tensor) -> tuple[Tensor | None, ...]:
        # In place: an output as large as the weight is slow to allocate. A second pass is refused by torch,
        # which also gives each gradient the type of its input.
        scaled = [None if each is None else each.mul_(of_total) for each in ctx.saved_tensors]
        return *scaled, None, None, None


def _precise(scores: Tensor) -> Tensor:
    """Returns scores of half precision as float32: their exponentials are added up."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _loss_and_gradient(scores: Tensor, right: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Returns the summed loss, and its gradient in the memory of the scores."""
    largest = scores.amax(dim=1, keepdim=True)
    wanted = (1 - smoothing) * scores.gather(1, right).sum()
    if smoothing:
        wanted = wanted + smoothing / scores.shape[1] * scores.sum()
    exponentials = scores.sub_(largest).exp_()
    sums = exponentials.sum(dim=1, keepdim=True)
    loss = (sums.log() + largest).sum() - wanted
    gradient = exponentials.div_(sums).sub_(smoothing / scores.shape[1])
    return loss, gradient.scatter_add_(1, right, gradient.new_full((), smoothing - 1).expand_as(right))
