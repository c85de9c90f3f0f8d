"""BERT's head for masked tokens."""

from typing import Annotated, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import HeadContext, HeadInput
from plugformer_plugins.head.language_model import LanguageModel


class MaskedToken(LanguageModel):
    """A masked token from its hidden state, by a hidden layer, a norm and the vocabulary, as in BERT.

    A linear map, a GELU and a layer norm, then the vocabulary with a bias.

    Devlin et al. 2019, https://arxiv.org/abs/1810.04805, as in their code (`get_masked_lm_output`).

    Args:
        model: Sizes of the model; the weight is `model.tied` where that is given.
        epsilon: Of the norm.
        approximate: "none" for the exact GELU, "tanh" for its approximation.
    """

    has_other_losses = True  # so that `loss` computes the logits of masked tokens alone

    def __init__(
        self,
        model: HeadContext,
        *,
        epsilon: Annotated[float, Field(gt=0)] = 1e-12,
        approximate: Literal["none", "tanh"] = "none",
    ) -> None:
        super().__init__(model, bias=True)
        self.dense = nn.Linear(model.width, model.width)
        self.activation = nn.GELU(approximate)
        self.norm = nn.LayerNorm(model.width, eps=epsilon)

    def logits(
        self, hidden: Float[Tensor, "batch length width"], context: HeadInput
    ) -> Float[Tensor, "batch length outputs"]:
        """Returns the scores of every token of the vocabulary at every position."""
        return super().logits(self.norm(self.activation(self.dense(hidden))), context)
