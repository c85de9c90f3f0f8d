"""Networks of two linear maps with an activation between, plain or gated."""

from collections.abc import Callable
from typing import Annotated, Literal

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from plugformer.interfaces import Context, FeedForward, ModelContext

Stream = Float[Tensor, "batch length width"]


class PositionWise(FeedForward):
    """Two linear maps with an activation between: f(x W_up + b_up) W_down + b_down.

    Attention Is All You Need, Vaswani et al. 2017, section 3.3: https://arxiv.org/abs/1706.03762. W_up is
    (width, ffn_width) and W_down (ffn_width, width).

    Args:
        model: Sizes of the model; the hidden layer has exactly `model.ffn_width` units.
        bias: Whether the maps have biases.
    """

    activation: Callable[[Tensor], Tensor]

    def __init__(
        self,
        model: ModelContext,
        *,
        bias: Annotated[bool, Field(description="Whether the maps have biases.")] = True,
    ) -> None:
        super().__init__()
        self.up = nn.Linear(model.width, model.ffn_width, bias=bias)
        self.down = nn.Linear(model.ffn_width, model.width, bias=bias)

    def forward(self, x: Stream, context: Context) -> Stream:
        """Returns the network's output at each token."""
        output: Tensor = self.down(self.activation(self.up(x)))
        return output


class ReLU(PositionWise):
    """Two linear maps with a rectified linear unit between.

    max(0, x W_up + b_up) W_down + b_down.

    Attention Is All You Need, Vaswani et al. 2017, equation 2: https://arxiv.org/abs/1706.03762.
    """

    activation = staticmethod(functional.relu_)  # in place: nothing else reads the hidden units


class GELU(PositionWise):
    """Two linear maps with a Gaussian error linear unit between, exact or by tanh.

    GELU(x W_up + b_up) W_down + b_down; GELU(h) = h Phi(h), Phi the normal distribution function.

    Gaussian Error Linear Units, Hendrycks and Gimpel 2016, section 2: https://arxiv.org/abs/1606.08415.

    Args:
        model: Sizes of the model; the hidden layer has exactly `model.ffn_width` units.
        approximate: "none" for the exact function, "tanh" for the paper's approximation (as in GPT-2).
        bias: Whether the maps have biases.
    """

    def __init__(
        self, model: ModelContext, *, approximate: Literal["none", "tanh"] = "none", bias: bool = True
    ) -> None:
        super().__init__(model, bias=bias)
        self.activation = nn.GELU(approximate)


class SiLU(PositionWise):
    """Two linear maps with a Swish (SiLU) between, as in Marian's models.

    SiLU(x W_up + b_up) W_down + b_down; SiLU(h) = h sigmoid(h), also called Swish.

    Sigmoid-Weighted Linear Units, Elfwing et al. 2018: https://arxiv.org/abs/1702.03118.
    """

    activation = staticmethod(functional.silu)


class GatedLinearUnit(FeedForward):
    """(f(x W_gate) * (x W_up)) W_down, with biases if wanted.

    GLU Variants Improve Transformer, Shazeer 2020, equations 5 and 6: https://arxiv.org/abs/2002.05202.
    W_gate and W_up are (width, ffn_width), W_down is (ffn_width, width). With three matrices in place of two,
    the parameters are half as many again as in a position-wise network of the same width. For equal
    parameters set `model.ffn_width` to two thirds, as the paper does.

    Args:
        model: Sizes of the model; the hidden layer has exactly `model.ffn_width` units.
        bias: Whether the maps have biases; the paper has none.
    """

    activation: Callable[[Tensor], Tensor]

    def __init__(
        self,
        model: ModelContext,
        *,
        bias: Annotated[bool, Field(description="Whether the maps have biases.")] = False,
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(model.width, model.ffn_width, bias=bias)
        self.up = nn.Linear(model.width, model.ffn_width, bias=bias)
        self.down = nn.Linear(model.ffn_width, model.width, bias=bias)

    def forward(self, x: Stream, context: Context) -> Stream:
        """Returns the network's output at each token."""
        gate, up = context.product(x, self.gate, self.up).chunk(2, dim=-1)
        output: Tensor = self.down(self.activation(gate) * up)
        return output


class SwiGLU(GatedLinearUnit):
    """Gated linear unit whose gate is a Swish (SiLU).

    The gate is Swish with beta 1, also called SiLU: f(g) = g sigmoid(g).
    See https://arxiv.org/abs/2002.05202.
    """

    activation = staticmethod(functional.silu)


class GEGLU(GatedLinearUnit):
    """Gated linear unit whose gate is a GELU.

    The gate is a GELU: f(g) = g Phi(g) with the normal distribution function Phi.
    See https://arxiv.org/abs/2002.05202.

    Args:
        model: Sizes of the model; the hidden layer has exactly `model.ffn_width` units.
        approximate: "none" for the exact function, "tanh" for its approximation (as in T5 1.1).
        bias: Whether the maps have biases.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        approximate: Literal["none", "tanh"] = "none",
        bias: Annotated[bool, Field(description="Whether the maps have biases.")] = False,
    ) -> None:
        super().__init__(model, bias=bias)
        self.activation = nn.GELU(approximate)


class ReGLU(GatedLinearUnit):
    """Gated linear unit whose gate is a rectified linear unit.

    The gate is a rectified linear unit: f(g) = max(0, g).
    See https://arxiv.org/abs/2002.05202.
    """

    activation = staticmethod(functional.relu)
