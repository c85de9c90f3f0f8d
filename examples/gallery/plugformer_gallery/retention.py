"""Retention: in parallel while training, from a state of fixed size while decoding."""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu

from plugformer.errors import ConfigurationError
from plugformer.interfaces import PAST, Attention, AttentionContext, ModelContext, Positions, State, View
from plugformer_blocks import Recurrent
from plugformer_gallery.heads import merged, require_divisible, split


class Retained(Recurrent):
    """Of the last piece keys, values and the logarithm of each token's decay; of the past S = sum of k^T v.

    Keys and values are (batch, length, heads, head width), decays (batch, length, heads), and S is (batch,
    heads, head width, head width). At padding keys are zero and nothing decays.
    """

    def fold(self) -> tuple[Tensor, ...]:
        """Returns S after the piece: RetNet, equation 7, the second line."""
        key, value, decay = self.piece
        since = decay.sum(1, keepdim=True) - decay.cumsum(1)  # from each token to the end of the piece
        total = torch.einsum("blhk,blhv,blh->bhkv", key, value, since.exp().to(key.dtype))
        if self.past:
            total = total + self.past[0] * decay.sum(1).exp().to(key.dtype)[..., None, None]
        return (total,)


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
        return view == PAST

    def project(self, memory: Float[Tensor, "batch key width"], positions: Positions) -> State:
        """Returns keys, values and decays of a piece."""
        key = positions.rotate(split(self.key(memory), self.heads)).transpose(1, 2)
        value = self.value(memory).unflatten(-1, (self.heads, -1))
        heads = torch.arange(self.heads, device=memory.device)
        decay = (1 - 2.0 ** (-5 - heads)).log() * positions.mask[..., None]
        return Retained(key * positions.mask[..., None, None] * key.shape[-1] ** -0.5, value, decay)

    def attend(
        self, query: Float[Tensor, "batch query width"], state: State, context: AttentionContext
    ) -> Float[Tensor, "batch query width"]:
        """Returns what each token of the last piece reads of the piece and of what came before."""
        retained = cast("Retained", state)
        heads = context.query.rotate(split(self.query(query), self.heads))
        key, value, decay = (tensor.transpose(1, 2) for tensor in retained.piece)
        passed = decay.cumsum(-1)  # (batch, heads, length): from the beginning of the piece to each token
        ahead = torch.ones(key.shape[2], key.shape[2], dtype=torch.bool, device=key.device).triu(1)
        between = (passed[..., None] - passed[..., None, :]).masked_fill(ahead, -torch.inf).exp()
        read = (heads @ key.mT * between.to(key.dtype)) @ value
        if retained.past:
            read = read + heads @ retained.past[0] * passed.exp().to(key.dtype)[..., None]
        normalized = rms_norm(read, read.shape[-1:], eps=1e-6)  # as in the authors' implementation
        output: Tensor = self.output(silu(self.gate(query)) * merged(normalized))
        return output
