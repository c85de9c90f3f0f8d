"""Retention: in parallel while training, from a state of fixed size while decoding."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu

from plugformer.errors import ConfigurationError
from plugformer.interfaces import CAUSAL, Attention, Context, ModelContext, View
from plugformer_blocks import split_heads
from plugformer_gallery.heads import merged, require_divisible


class Retention(Attention):
    """(Q K^T * D) V in every head, where D lets what is read decay with distance; no softmax.

    Retentive Network, Sun et al. 2023, section 2: https://arxiv.org/abs/2307.08621. Equation 5 is the
    parallel form, for a whole sequence; equation 7 continues from the state of the tokens before; with one
    token it is equation 6. Head h decays by 1 - 2^(-5-h) and is normalized by itself; all are gated
    (equation 8). The rotation is the model's position: `rope` is the paper's without its own scales.

    Args:
        model: Sizes of the model, and the place of the mixer.

    Raises:
        ConfigurationError: The heads do not divide the width, or the place is not causal.
    """

    def __init__(self, model: ModelContext) -> None:
        super().__init__()
        require_divisible(model)
        if not model.place.causal:
            raise ConfigurationError(
                "retention reads what came before in its own sequence, as only a causal stack does\n"
                "choose another attention here"
            )
        self.heads = model.heads
        self.query, self.key, self.value, self.gate, self.output = (
            nn.Linear(model.width, model.width, bias=False) for _ in range(5)
        )

    def follows(self, view: View) -> bool:
        """Returns whether a token sees all tokens before it: retention hides none."""
        return view == CAUSAL

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns what each token reads of its piece of the sequence, and of what came before the piece.

        What is kept is S = sum of k^T v, (batch, heads, head width, head width), every token decayed.
        """
        width = x.shape[-1] // self.heads
        query, key, value, gate = context.product(x, self.query, self.key, self.value, self.gate).chunk(
            4, dim=-1
        )
        query, key, value = (split_heads(each, width) for each in (query, key, value))
        query, key = context.rotate(query), context.rotate(key) * width**-0.5
        decay = (1 - 2.0 ** (-5 - torch.arange(self.heads, device=x.device))).log()[None, :, None]
        if context.real is not None:  # at padding keys are zero and nothing decays
            key, decay = key * context.real[:, None, :, None], decay * context.real[:, None]
        passed = decay.expand(-1, -1, x.shape[1]).cumsum(-1)  # from the beginning of the piece to each token
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        between = (passed[..., None] - passed[..., None, :]).masked_fill(ahead, -torch.inf).exp()
        read = (query @ key.mT * between.to(key.dtype)) @ value
        total = (key * _until_end(passed).to(key.dtype)[..., None]).mT @ value
        if context.past is not None:
            (past,) = context.past
            read = read + query @ past * passed.exp().to(key.dtype)[..., None]
            total = total + past * passed[..., -1].exp().to(key.dtype)[..., None, None]
        context.keep(total)
        normalized = rms_norm(read, read.shape[-1:], eps=1e-6)  # as in the authors' implementation
        output: Tensor = self.output(silu(gate) * merged(normalized))
        return output


def _until_end(passed: Float[Tensor, "#batch heads length"]) -> Float[Tensor, "#batch heads length"]:
    """Returns how much of each token is left at the end of the piece."""
    return (passed[..., -1:] - passed).exp()
