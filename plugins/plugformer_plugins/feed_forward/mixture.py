"""Mixture of experts: a router sends each token to the best few of several networks."""

from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Context, FeedForward, ModelContext
from plugformer_plugins.feed_forward.networks import GELU


class MixtureOfExperts(FeedForward):
    """Mixture of experts; a router sends each token to the best few of several networks.

    The `top_k` most probable experts' outputs, weighted by their probabilities rescaled to sum to 1.

    Routing: Outrageously Large Neural Networks, Shazeer et al. 2017, section 2:
    https://arxiv.org/abs/1701.06538, without noise. With p = softmax(x W_router) over all experts and T the
    `top_k` largest, y = sum over e in T of p_e / (sum of p over T) * expert_e(x). An expert is a GELU network
    with the model's feed-forward width and sees its own tokens only; none is ever dropped.

    While training, `auxiliary_loss` holds the balance loss of Switch Transformers, Fedus et al. 2022,
    equations 4 to 6 (https://arxiv.org/abs/2101.03961), with every one of a token's choices counted:
    balance * experts * sum over e of f_e P_e, where f_e is the share of all choices that fell on expert e
    and P_e its mean probability. It equals `balance` when both are even.

    Compiled or exported, where shapes must not depend on choices, every expert computes every token.

    Args:
        model: Sizes of the model; every expert has exactly `model.ffn_width` hidden units.
        experts: Number of experts.
        top_k: Experts that each token is sent to; at most as many as there are.
        balance: Weight of the balance loss.

    Raises:
        ConfigurationError: top_k is larger than the number of experts.
    """

    auxiliary_loss: Tensor | None

    def __init__(
        self,
        model: ModelContext,
        *,
        experts: Annotated[int, Field(ge=1, le=4096)] = 8,
        top_k: Annotated[int, Field(ge=1)] = 2,
        balance: Annotated[float, Field(ge=0)] = 0.01,
    ) -> None:
        super().__init__()
        if top_k > experts:
            raise ConfigurationError(
                f"top_k {top_k} is more than the {experts} experts there are; expected 1 to {experts}: "
                "lower top_k or raise experts"
            )
        self.top_k = top_k
        self.balance = balance
        self.router = nn.Linear(model.width, experts, bias=False)
        self.experts = nn.ModuleList(GELU(model) for _ in range(experts))
        self.auxiliary_loss = None

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns the mixture's output at each token."""
        tokens = x.flatten(0, 1)
        probabilities = self.router(tokens).softmax(dim=-1)  # (tokens, experts)
        gates, chosen = probabilities.topk(self.top_k, dim=-1)  # (tokens, top_k)
        if self.training:
            real = None if context.real is None else context.real.flatten()
            self.auxiliary_loss = self._balance_loss(probabilities, chosen, real)
        gates = gates / gates.sum(dim=-1, keepdim=True)
        if torch.compiler.is_compiling():  # every expert computes every token: shapes depend on no choice
            weights = torch.zeros_like(probabilities).scatter(1, chosen, gates)
            every = torch.stack([expert(x, context).flatten(0, 1) for expert in self.experts], dim=-1)
            return torch.einsum("twe,te->tw", every, weights).view(x.shape)
        # An expert runs even if it has no tokens: its gradients are then zero, not missing.
        order = chosen.flatten().argsort(stable=True)  # choices, expert by expert
        counts = chosen.flatten().bincount(minlength=len(self.experts)).tolist()
        places = order // self.top_k
        parts = tokens.index_select(0, places).split(counts)
        outputs = [expert(part[None], context)[0] for expert, part in zip(self.experts, parts, strict=True)]
        weighted = torch.cat(outputs) * gates.flatten()[order, None]
        output: Tensor = weighted.new_zeros(tokens.shape).index_add(0, places, weighted)
        return output.view(x.shape)

    def _balance_loss(
        self,
        probabilities: Float[Tensor, "tokens experts"],
        chosen: Int[Tensor, "tokens top_k"],
        real: Bool[Tensor, " tokens"] | None,
    ) -> Float[Tensor, ""]:
        experts = probabilities.shape[1]
        counted = (
            torch.ones_like(probabilities[:, :1]) if real is None else real[:, None].to(probabilities.dtype)
        )
        number = counted.sum().clamp(min=1)
        share = (
            torch.zeros_like(probabilities).scatter(1, chosen, counted.expand(-1, chosen.shape[1])).sum(dim=0)
        )
        mean = (probabilities * counted).sum(dim=0) / number
        return self.balance * experts * (share / (number * chosen.shape[1]) * mean).sum()
