"""Heads that compare the vectors of two texts by their cosine."""

from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Head, HeadContext, HeadInput, Level, Likelihoods, OutputType

Hidden = Float[Tensor, "batch 2 width"]
Real = Bool[Tensor, "batch 2"]


class CosineHead(Head):
    """Vectors of unit length, so that their product is the cosine of the texts' hidden states.

    Args:
        model: Sizes of the model, and its two inputs.

    Raises:
        ConfigurationError: There are not two inputs of one text each.
    """

    levels = frozenset({Level.VECTOR})
    probabilities = False

    def __init__(self, model: HeadContext) -> None:
        super().__init__()
        if len(model.inputs) != 2 or model.inputs[1].many:
            names = ", ".join(part.name + " (many)" * part.many for part in model.inputs)
            raise ConfigurationError(f"it compares two inputs of one text each, the task type has {names}")

    def vectors(self, hidden: Float[Tensor, "batch rows width"]) -> Float[Tensor, "batch rows width"]:
        """Returns the hidden states, each divided by its length."""
        return functional.normalize(hidden, dim=-1)

    def logits(self, hidden: Hidden, context: HeadInput) -> Float[Tensor, "batch 1"]:
        """Returns the cosine of each pair."""
        return self.vectors(hidden).prod(dim=1).sum(dim=-1, keepdim=True)


class CosineRegressor(CosineHead):
    """A number for two texts, linear in the cosine of their vectors; squared error.

    A linear function of the cosine, and the squared error.

    Reimers and Gurevych 2019, section 3, with a learned slope and intercept, so that scores of any scale can
    be predicted: https://arxiv.org/abs/1908.10084.
    """

    output_types = frozenset({OutputType.NUMBER})

    def __init__(self, model: HeadContext) -> None:
        super().__init__(model)
        self.slope = nn.Parameter(torch.empty(()))
        self.intercept = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Begins with the cosine itself."""
        nn.init.ones_(self.slope)
        nn.init.zeros_(self.intercept)

    def logits(self, hidden: Hidden, context: HeadInput) -> Float[Tensor, "batch 1"]:
        """Returns the number of each pair."""
        return self.slope * super().logits(hidden, context) + self.intercept

    def losses(
        self, logits: Float[Tensor, "batch 1"], targets: Float[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Returns the squared error of each pair."""
        return (logits[:, 0] - targets).square()


class Contrastive(CosineHead):
    """Cosines of texts; each finds its own among those of the batch, by cross-entropy.

    The cross-entropy of finding a pair's second text among those of the batch, and the reverse.

    Henderson et al. 2017, section 4.4, https://arxiv.org/abs/1705.00652; with cosines and a temperature van
    den Oord et al. 2018, equation 4, https://arxiv.org/abs/1807.03748; in both directions Radford et al.
    2021, figure 3, https://arxiv.org/abs/2103.00020. The targets of a pair are two numbers, one for each
    text, which are equal where texts are. A pair that shares a text with another is not its negative.

    Args:
        model: Sizes of the model, and its two inputs.
        temperature: The cosines are divided by it.
        symmetric: Whether the first text is also looked for; the loss is then the mean of both.
    """

    output_types = frozenset({OutputType.TEXT})
    depends_on = "batch"

    def __init__(
        self,
        model: HeadContext,
        *,
        temperature: Annotated[float, Field(gt=0, le=10)] = 0.05,
        symmetric: bool = True,
    ) -> None:
        super().__init__(model)
        self.temperature = temperature
        self.symmetric = symmetric

    @classmethod
    def check_case(cls, real: Real) -> tuple[Int[Tensor, "batch 2"], int]:
        """Returns pairs of different texts."""
        return torch.arange(2 * len(real)).view(-1, 2), 1

    def likelihoods(
        self, hidden: Hidden, targets: Int[Tensor, " batch *texts"], context: HeadInput
    ) -> Likelihoods:
        """Returns the loss of each pair among the others; nothing is right or wrong."""
        first, second = self.vectors(hidden).unbind(dim=1)
        numbers = targets.view(len(targets), -1)
        same = (numbers[:, None] == numbers).any(dim=-1).fill_diagonal_(False)
        scores = (first @ second.T / self.temperature).masked_fill(same, -torch.inf)
        right = torch.arange(len(scores), device=scores.device)
        losses = functional.cross_entropy(scores, right, reduction="none")
        if self.symmetric:
            losses = (losses + functional.cross_entropy(scores.T, right, reduction="none")) / 2
        return Likelihoods(
            context.weighted(losses), torch.ones_like(right), log_probabilities=None, correct=None
        )
