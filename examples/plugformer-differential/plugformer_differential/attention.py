"""Differential attention: what two softmax maps agree on is noise, and is subtracted."""

import math
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Attention, Context, ModelContext
from plugformer_blocks import project_heads, softmax_attention


class DifferentialAttention(Attention):
    """The difference between two softmax maps, so that what both attend to cancels.

    (softmax(Q1 K1^T / sqrt(d)) - λ softmax(Q2 K2^T / sqrt(d))) V in every pair of heads, normalized.

    Differential Transformer, Ye et al. 2024, section 2.1: https://arxiv.org/abs/2410.05258. Equation 1 is the
    difference. Equation 2 is λ = exp(λq1 · λk1) - exp(λq2 · λk2) + λ_init, with four learned vectors that all
    pairs of a layer share. By equation 3 each pair is normalized by itself (RMSNorm) and scaled by
    1 - λ_init; then all are concatenated and projected. λ_init grows with the layer l = 1, 2, ..., by
    0.8 - 0.6 exp(-0.3 (l - 1)).

    Each of the model's heads is one softmax map of head width d = width / heads. Maps 2i and 2i + 1 form pair
    i and read the same values, which are 2 d wide. The cache holds keys (rotated) and values, each (batch,
    heads, length, d).

    Args:
        model: Sizes of the model; the heads must be even in number and divide the width.
        lambda_init: λ at the start of training, and what the outputs' scale is derived from. None: by the
            number of the layer.

    Raises:
        ConfigurationError: The number of heads is odd, or does not divide the width.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        lambda_init: Annotated[
            float | None,
            Field(gt=0, lt=1, description="Weight of the second map when training starts; by layer if null."),
        ] = None,
    ) -> None:
        super().__init__()
        self.width = width = _head_width(model)
        self.dropout = model.attention_dropout
        self.lambda_init = lambda_init or 0.8 - 0.6 * math.exp(-0.3 * model.place.layer)
        self.query, self.key, self.value, self.output = (
            nn.Linear(model.width, model.width, bias=False) for _ in range(4)
        )
        self.norm = nn.RMSNorm(2 * width, eps=1e-5)  # as in the authors' implementation
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (
            nn.Parameter(torch.empty(width)) for _ in range(4)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the vectors of λ, as the authors' implementation does; the other modules draw their own."""
        for vector in (self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2):
            nn.init.normal_(vector, std=0.1)

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns what each token reads with the difference of its maps."""
        query, key, value = project_heads(x, context, self.query, self.key, self.value, width=self.width)
        read = softmax_attention(
            query,
            key,
            value.unflatten(1, (-1, 2)).transpose(2, 3).flatten(3).repeat_interleave(2, dim=1),
            context,
            dropout=self.dropout if self.training else 0.0,
        )
        first, second = read.unflatten(1, (-1, 2)).unbind(2)
        pairs = self.norm(first - self._lambda() * second) * (1 - self.lambda_init)
        output: Tensor = self.output(pairs.transpose(1, 2).flatten(-2))
        return output

    def _lambda(self) -> Float[Tensor, ""]:
        """Returns λ, by equation 2."""
        first: Tensor = self.lambda_q1 @ self.lambda_k1
        second: Tensor = self.lambda_q2 @ self.lambda_k2
        return first.exp() - second.exp() + self.lambda_init


def _head_width(model: ModelContext) -> int:
    """Returns the width of a softmax map."""
    if model.heads % 2:
        raise ConfigurationError(
            f"{model.heads} heads do not form pairs; differential attention subtracts one head from another: "
            f"set model.heads to an even number, such as {model.heads + 1}"
        )
    if model.width % model.heads:
        raise ConfigurationError(
            f"{model.heads} heads do not divide the width {model.width}; expected a multiple of "
            f"{model.heads}: change model.width or model.heads"
        )
    return model.width // model.heads
