"""Adam, and AdamW with decoupled weight decay."""

from collections.abc import Iterable
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Optimizer, Updates

LearningRate = Annotated[
    float, Field(gt=0, description="Learning rate, which the schedule's factor multiplies.")
]
DecayRate = Annotated[float, Field(ge=0, lt=1)]
Betas = Annotated[
    tuple[DecayRate, DecayRate], Field(description="Decay rates of the first and second moment.")
]
Epsilon = Annotated[float, Field(gt=0, description="Added to the root of the second moment.")]


class Adam(Optimizer):
    """Adaptive moment estimation.

    Steps by the first moment of the gradient over the root of its second, both corrected for their start.

    Adam: A Method for Stochastic Optimization, Kingma and Ba 2015, algorithm 1:
    https://arxiv.org/abs/1412.6980.
    """

    def __init__(
        self, *, lr: LearningRate = 0.001, betas: Betas = (0.9, 0.999), epsilon: Epsilon = 1e-8
    ) -> None:
        self.lr = lr
        self.betas = betas
        self.epsilon = epsilon

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns torch's fused Adam of all parameters that are trained."""
        trained = [parameter for _, parameter in parameters if parameter.requires_grad]
        return torch.optim.Adam(trained, lr=self.lr, betas=self.betas, eps=self.epsilon, fused=True)

    def updates(self, path: str, parameter: Tensor) -> Updates:
        """Returns that each number moves by about the learning rate."""
        return Updates.ADAPTIVE


class AdamW(Adam):
    """Adam with decoupled weight decay on matrices.

    Adam whose weight decay is taken off the parameters and not put into the gradient.

    Decoupled Weight Decay Regularization, Loshchilov and Hutter 2019, algorithm 2:
    https://arxiv.org/abs/1711.05101. Matrices decay, embeddings among them; vectors and scalars (biases, norm
    weights) do not, because pulling them to zero does not make the model any simpler.

    Args:
        weight_decay: Share of a matrix taken off at each update, times the learning rate.
    """

    def __init__(
        self,
        *,
        lr: LearningRate = 0.001,
        betas: Betas = (0.9, 0.999),
        epsilon: Epsilon = 1e-8,
        weight_decay: Annotated[float, Field(ge=0)] = 0.01,
    ) -> None:
        super().__init__(lr=lr, betas=betas, epsilon=epsilon)
        self.weight_decay = weight_decay

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns torch's fused AdamW with two groups: what decays, and what does not."""
        groups = decaying_groups(parameters, self.weight_decay)
        return torch.optim.AdamW(groups, lr=self.lr, betas=self.betas, eps=self.epsilon, fused=True)


def decaying_groups(
    parameters: Iterable[tuple[str, nn.Parameter]], weight_decay: float
) -> list[dict[str, Any]]:
    """Returns groups of what is trained: matrices, which decay, and the rest, which does not."""
    trained = [parameter for _, parameter in parameters if parameter.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
