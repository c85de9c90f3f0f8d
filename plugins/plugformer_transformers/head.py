"""BERT's head for masked tokens."""

from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import Head, HeadContext, HeadInput, Level, OutputType


class MaskedToken(Head):
    """A linear map, a GELU and a layer norm, then the vocabulary with a bias.

    Devlin et al. 2019, https://arxiv.org/abs/1810.04805, as in their code (`get_masked_lm_output`).

    Args:
        model: Sizes of the model; the weight is `model.tied` where that is given.
        epsilon: Of the norm.
        approximate: "none" for the exact GELU, "tanh" for its approximation.
    """

    levels = frozenset({Level.TOKEN, Level.NEXT_TOKEN})
    output_types = frozenset({OutputType.TEXT, OutputType.TOKENS})

    def __init__(
        self,
        model: HeadContext,
        *,
        epsilon: Annotated[float, Field(gt=0)] = 1e-12,
        approximate: Literal["none", "tanh"] = "none",
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(model.width, model.width)
        self.activation = nn.GELU(approximate)
        self.norm = nn.LayerNorm(model.width, eps=epsilon)
        self.tied = model.tied is not None
        self.weight = (
            nn.Parameter(torch.empty(model.outputs, model.width)) if model.tied is None else model.tied
        )
        self.bias = nn.Parameter(torch.empty(model.outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weight as torch.nn.Linear does, unless it is the embedding's; sets the bias to zero."""
        if not self.tied:
            nn.init.kaiming_uniform_(self.weight, a=5**0.5)  # uniform on ±1 / sqrt(width)
        nn.init.zeros_(self.bias)

    def logits(
        self,
        hidden: Float[Tensor, "batch length width"],
        context: HeadInput,  # noqa: ARG002 (each position by itself)
    ) -> Float[Tensor, "batch length outputs"]:
        """Returns the scores of every token of the vocabulary at every position."""
        changed = self.norm(self.activation(self.dense(hidden)))
        return functional.linear(changed, self.weight, self.bias)
