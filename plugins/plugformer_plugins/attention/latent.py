"""Multi-head latent attention: keys and values come from one small latent, which alone is kept."""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Attention, Context, ModelContext, Positions
from plugformer_blocks import softmax_attention
from plugformer_plugins.attention.grouped import head_width


class MultiHeadLatentAttention(Attention):
    """Multi-head latent attention; only a small latent is cached, from which keys and values are computed.

    Attention whose keys and values are linear maps of a latent vector c for each token.

    DeepSeek-V2, 2024, section 2.1, equations 9 to 19: https://arxiv.org/abs/2405.04434. With head width d:
    c = RMSNorm(h W_DKV), a rotated key k_R = rotate(h W_KR) that all heads share, and for every head
    k = [c W_UK; k_R], v = c W_UV, q = [q_C; rotate(q_R)], scores q k / sqrt(d + rotary width). Rotation is
    decoupled from the content because a rotation between W_UK and the query would keep c from being all
    that is stored. The norm is section 3.1.2's; queries are not compressed, as in DeepSeek-V2-Lite.

    W_UK is applied to the queries and W_UV to what was read (end of section 2.1.2): every head then attends
    to the latents themselves, and keys and values of the past are never computed. A bias on W_UK would cancel
    in the softmax and one on W_UV is a part of the output's, so these two have none.

    The cache is one tensor, (batch, 1, length, latent width + rotary width).

    Args:
        model: Sizes of the model; the width is divided evenly among the heads.
        latent_width: Width of c. None: the paper's four head widths, but at most half the model's width.
        rotary_width: Width of the rotated part, even. None: the paper's half a head width, rounded up to an
            even number.
        bias: Whether the projections to queries, latent and output have biases.

    Raises:
        ConfigurationError: The heads do not divide the width.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        latent_width: Annotated[int | None, Field(ge=1, le=32_768)] = None,
        rotary_width: Annotated[int | None, Field(ge=2, le=32_768, multiple_of=2)] = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        width = head_width(model)
        self.heads = model.heads
        self.latent_width = latent_width or max(1, min(4 * width, model.width // 2))
        self.rotary_width = rotary_width or max(2, -(-width // 4) * 2)
        self.scale = (width + self.rotary_width) ** -0.5
        self.dropout = model.attention_dropout
        self.query = nn.Linear(model.width, model.width + model.heads * self.rotary_width, bias=bias)
        self.latent = nn.Linear(model.width, self.latent_width + self.rotary_width, bias=bias)
        self.latent_norm = nn.RMSNorm(self.latent_width, eps=1e-6)
        self.key = nn.Linear(self.latent_width, model.width, bias=False)
        self.value = nn.Linear(self.latent_width, model.width, bias=False)
        self.output = nn.Linear(model.width, model.width, bias=bias)

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns the attention output of each token over the latents that it may see."""

        def latents(memory: Tensor, positions: Positions) -> tuple[Tensor, ...]:
            latent, key = self.latent(memory).split([self.latent_width, self.rotary_width], dim=-1)
            rotated = positions.rotate(key[:, None])  # one head, which all query heads share
            latent = latent.to(self.latent_norm.weight.dtype)  # PyTorch's fused kernel wants one type
            return (torch.cat([self.latent_norm(latent)[:, None], rotated], dim=-1),)

        if context.cross:
            (memory,) = context.once(lambda memory: latents(memory, context.key))
        else:
            (memory,) = context.cached(*latents(x, context.query))
        # Rotated keys ride along as values and are cut off: kernels want keys and values of one width.
        read = softmax_attention(
            self._latent_queries(x, context),
            memory,
            memory,
            context,
            scale=self.scale,
            dropout=self.dropout if self.training else 0.0,
        )[..., : self.latent_width]
        value = self.value.weight.unflatten(0, (self.heads, -1))
        values = torch.einsum("bhqc,hvc->bqhv", read, value)  # W_UV of each head
        output: Tensor = self.output(values.flatten(-2))
        return output

    def _latent_queries(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch heads length latent"]:
        """Returns q_C W_UK^T and the rotated part side by side."""
        key = self.key.weight.unflatten(0, (self.heads, -1))
        heads = self.query(x).unflatten(-1, (self.heads, -1))
        content, rotary = heads.split([key.shape[1], self.rotary_width], dim=-1)
        latent = torch.einsum("bqhk,hkc->bhqc", content, key)
        return torch.cat([latent, context.rotate(rotary.transpose(1, 2))], dim=-1)
