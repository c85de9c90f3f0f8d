"""Parts of the records of fast training: normalized queries and keys, zeros, and cautious weight decay."""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from plugformer.interfaces import Context, Initialization, ModelContext
from plugformer_blocks import softmax_attention, split_heads
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_plugins.optimizer.adam import AdamW, decaying_groups


class NormalizedQueryKeyAttention(MultiHeadAttention):
    """Multi-head attention whose query and key heads have a root mean square of 1.

    Query-Key Normalization, Henry et al. 2020: https://arxiv.org/abs/2010.04245, with RMSNorm without weights
    in place of unit length and a learned factor, as in https://github.com/KellerJordan/modded-nanogpt.

    Args:
        bias: Whether the projections have biases.
    """

    def __init__(self, model: ModelContext, *, bias: bool = True) -> None:
        super().__init__(model, bias=bias)

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns the attention output of each token over the keys and values that it may see."""
        width = self.width
        maps = (self.query, self.key, self.value)
        query, key, value = (split_heads(each, width) for each in context.product(x, *maps).chunk(3, dim=-1))
        query, key = (context.rotate(rms_norm(each, (width,))) for each in (query, key))
        key, value = context.cached(key, value)
        dropout = self.dropout if self.training else 0.0
        read = softmax_attention(query, key, value, context, dropout=dropout)
        output: Tensor = self.output(read.transpose(1, 2).flatten(-2))
        return output


class ZeroOutputs(Initialization):
    """Zeros in the weights of the last map of each sublayer; the default initial values elsewhere.

    Without biases every sublayer starts as the identity: https://github.com/KellerJordan/modded-nanogpt, and
    of residual networks Fixup, Zhang et al. 2019, section 3.1: https://arxiv.org/abs/1901.09321.
    """

    def draw(self, values: Float[Tensor, "..."], path: str, module: nn.Module, residual_layers: int) -> None:
        """Sets what adds to the residual stream to zero."""
        if residual_layers:
            nn.init.zeros_(values)


class _CautiousAdamW(torch.optim.AdamW):
    """AdamW of which `decay` is the weight decay; that of the base class is 0."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Makes the step of Adam, and lets decay what moved towards zero."""
        decaying = [
            (group, each) for group in self.param_groups for each in group["params"] if group["decay"]
        ]
        before = [each.clone() for _, each in decaying]
        super().step(closure)
        for (group, each), old in zip(decaying, before, strict=True):
            aligned = (old - each) * old >= 0
            each.sub_(old * aligned, alpha=group["lr"] * group["decay"])


class CautiousAdamW(AdamW):
    """AdamW that takes weight decay off those numbers alone that the step moves towards zero.

    Cautious Weight Decay, Chen et al. 2025, algorithm 1: https://arxiv.org/abs/2510.12402.

    Args:
        weight_decay: Share of such a number taken off at each update, times the learning rate.
    """

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns the optimizer with two groups: what decays, and what does not."""
        groups = decaying_groups(parameters, self.weight_decay)
        for group in groups:
            group["decay"] = group.pop("weight_decay")
        return _CautiousAdamW(
            groups, lr=self.lr, betas=self.betas, eps=self.epsilon, weight_decay=0.0, fused=True
        )
