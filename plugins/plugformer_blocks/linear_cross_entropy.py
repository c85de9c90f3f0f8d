"""The cross-entropy of a linear map, whose scores take no more memory than the device has to spare."""

import math
from functools import cache, partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

IGNORED = -100
"""The target of a row without one, as in `torch.nn.functional.cross_entropy`."""

LOGITS_MEMORY = 0.5
"""Share of a GPU's free memory for logits and their gradients; activations and optimizers need the rest."""

CPU_SCORES = 2**23
"""How many scores a CPU computes at a time: 32 MB of float32, enough for products at full speed."""

BYTES = 16
"""Of a score in the backward pass: its log-probability and three gradients, one of them for smoothing."""

ASSUMED = 2**33
"""Bytes that are taken for free on a device that does not say what is."""


def linear_cross_entropy(
    hidden: Float[Tensor, "targets width"],
    weight: Float[Tensor, "outputs width"],
    targets: Int[Tensor, " targets"],
    *,
    bias: Float[Tensor, " outputs"] | None = None,
    label_smoothing: float = 0.0,
    target_weights: Float[Tensor, " targets"] | None = None,
    memory: float = LOGITS_MEMORY,
) -> Float[Tensor, ""]:
    """Returns the summed cross-entropy, in nats, of the scores `hidden @ weight.T + bias`.

    Equal to `torch.nn.functional.cross_entropy(..., reduction="sum")` of these scores. On a GPU, and for
    torch.compile, it is just that where the scores fit. Elsewhere they are computed in pieces, so that memory
    does not grow with targets times outputs: Cut Your Losses in Large-Vocabulary Language Models, Wijmans et
    al. 2024, section 3, https://arxiv.org/abs/2411.09009, describes the problem. On a GPU pieces are large,
    and the backward pass computes them again. On a CPU they are small, leave out rows without a target, and
    are turned in place into their own gradient, softmax minus target; there are no second derivatives.

    Args:
        hidden: What the scores are computed from.
        weight: A row for each output.
        targets: The right outputs, -100 for none.
        bias: Added to the scores.
        label_smoothing: Share of each target that is spread evenly over all outputs.
        target_weights: Factor on the loss of each target, without gradients; None for 1.
        memory: Share of the memory that is free on a GPU when it computes its first loss, which scores and
            their gradients may take.
    """
    inputs = hidden, weight, bias, targets, target_weights, label_smoothing
    if hidden.device.type == "cpu" and not torch.compiler.is_compiling():
        return _on_cpu(*inputs)
    pieces = math.ceil(len(hidden) * len(weight) * BYTES / (memory * free_memory(hidden.device)))
    return _in_large_pieces(*inputs, pieces)


def free_memory(device: torch.device) -> int:
    """Returns the bytes that were free on a device when this was first asked: always the same number."""
    return _free_memory(device)


# As `torch.compiler.assume_constant_result` does, which would import the compiler for everybody.
vars(free_memory)["_dynamo_marked_constant"] = True


@cache
def _free_memory(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else ASSUMED


def _plain(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    factors: Tensor | None,
    label_smoothing: float,
) -> Tensor:
    scores = _precise(functional.linear(hidden, weight, bias))
    loss = partial(
        functional.cross_entropy, scores, targets, ignore_index=IGNORED, label_smoothing=label_smoothing
    )
    return loss(reduction="sum") if factors is None else (loss(reduction="none") * factors).sum()


def _in_large_pieces(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    factors: Tensor | None,
    label_smoothing: float,
    pieces: int,
) -> Tensor:
    if pieces <= 1:
        return _plain(hidden, weight, bias, targets, factors, label_smoothing)
    again = partial(checkpoint, _plain, use_reentrant=False, preserve_rng_state=False)
    every = [None] * pieces if factors is None else factors.tensor_split(pieces)
    parts = zip(hidden.tensor_split(pieces), targets.tensor_split(pieces), every, strict=True)
    losses = [again(some, weight, bias, right, part, label_smoothing) for some, right, part in parts]
    return torch.stack(losses).sum()


def _on_cpu(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    factors: Tensor | None,
    label_smoothing: float,
) -> Tensor:
    places = (targets != IGNORED).nonzero().squeeze(1).split(max(CPU_SCORES // len(weight), 1))
    if torch.is_grad_enabled():
        total: Tensor = _Gradients.apply(hidden, weight, bias, targets, factors, label_smoothing, places)
        return total
    losses = [
        _plain(hidden[some], weight, bias, targets[some], _some(factors, some), label_smoothing)
        for some in places
    ]
    return torch.stack(losses).sum()


def _some(factors: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if factors is None else factors.index_select(0, rows)


class _Gradients(torch.autograd.Function):
    """The loss; the gradients that are needed are computed with it, and scaled in the backward pass."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        hidden, weight, bias, targets, factors, smoothing, places = inputs
        for_hidden, for_weight, for_bias, *_ = ctx.needs_input_grad
        of_hidden = of_weight = None
        of_bias = torch.zeros_like(bias) if for_bias else None
        losses = []
        for rows in places:
            some, right = hidden.index_select(0, rows), targets.index_select(0, rows)
            scores = functional.linear(some, weight, bias)
            part = _some(factors, rows)
            loss, of_scores = _loss_and_gradient(_precise(scores), right, part, smoothing)
            losses.append(loss)
            of_scores = of_scores.to(scores.dtype)
            if for_hidden:
                product = of_scores @ weight
                if of_hidden is None:
                    kind = torch.promote_types(product.dtype, hidden.dtype)
                    of_hidden = torch.zeros_like(hidden, dtype=kind)
                of_hidden.index_copy_(0, rows, product.to(of_hidden.dtype))
            if for_weight:
                product = (of_scores.T @ some).to(weight.dtype)
                of_weight = product if of_weight is None else of_weight.add_(product)
            if of_bias is not None:
                of_bias = of_bias + of_scores.sum(dim=0)
        ctx.save_for_backward(of_hidden, of_weight, of_bias)
        return torch.stack(losses).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_total: Tensor) -> tuple[Tensor | None, ...]:
        # In place: an output as large as the weight is slow to allocate. A second pass is refused by torch,
        # which also gives each gradient the type of its input.
        scaled = [None if each is None else each.mul_(of_total) for each in ctx.saved_tensors]
        return *scaled, None, None, None, None


def _precise(scores: Tensor) -> Tensor:
    """Returns scores of half precision as float32: their exponentials are added up."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _loss_and_gradient(
    scores: Tensor, right: Tensor, factors: Tensor | None, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Returns the summed loss, and its gradient in the memory of the scores."""
    right, factors = right[:, None], None if factors is None else factors[:, None]
    largest = scores.amax(dim=1, keepdim=True)
    wanted = (1 - smoothing) * _times(scores.gather(1, right), factors).sum()
    if smoothing:
        wanted = wanted + smoothing / scores.shape[1] * _times(scores, factors).sum()
    exponentials = scores.sub_(largest).exp_()
    sums = exponentials.sum(dim=1, keepdim=True)
    loss = _times(sums.log() + largest, factors).sum() - wanted
    gradient = exponentials.div_(sums).sub_(smoothing / scores.shape[1])
    gradient.scatter_add_(1, right, gradient.new_full((), smoothing - 1).expand_as(right))
    return loss, gradient if factors is None else gradient.mul_(factors)


def _times(values: Tensor, factors: Tensor | None) -> Tensor:
    return values if factors is None else values * factors
