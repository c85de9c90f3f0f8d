"""Schemes of initial values."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Initialization


class Default(Initialization):
    """The default initial values of each module.

    What each module draws itself; of linear maps, torch's uniform values within ±1 / sqrt(inputs).

    https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
    """

    def draw(self, values: Float[Tensor, "..."], path: str, module: nn.Module, residual_layers: int) -> None:
        """Leaves everything as it is."""


class Xavier(Initialization):
    """Uniform, with bounds that depend on the number of inputs and outputs of each matrix.

    Every matrix uniform within ±sqrt(6 / (inputs + outputs)); the rest is what its module draws.

    Understanding the difficulty of training deep feedforward neural networks, Glorot and Bengio 2010,
    equation 16: https://proceedings.mlr.press/v9/glorot10a.html.
    """

    def draw(self, values: Float[Tensor, "..."], path: str, module: nn.Module, residual_layers: int) -> None:
        """Draws matrices."""
        if values.dim() > 1:
            nn.init.xavier_uniform_(values)


Deviation = Annotated[float, Field(gt=0, le=10)]


class Normal(Initialization):
    """Normal with one standard deviation, as in GPT-2; smaller for the last map of each sublayer.

    Every matrix normal with one deviation, biases of linear maps zero; the rest is what its module draws.

    Language Models are Unsupervised Multitask Learners, Radford et al. 2019, section 2.3:
    https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf. The
    last map of each sublayer, which adds to the residual stream, is divided by the square root of the number
    of sublayers that do. The deviation 0.02 is that of GPT, Radford et al. 2018, section 4.1.

    Args:
        deviation: Of all matrices.
        residual: Whether what adds to the residual stream is divided.
    """

    def __init__(self, *, deviation: Deviation = 0.02, residual: bool = True) -> None:
        self.deviation = deviation
        self.residual = residual

    def draw(self, values: Float[Tensor, "..."], path: str, module: nn.Module, residual_layers: int) -> None:
        """Draws matrices, and sets biases of linear maps to zero."""
        if values.dim() > 1:
            self.fill(values, self.deviation)
            if self.residual and residual_layers:
                values.div_(residual_layers**0.5)
        elif isinstance(module, nn.Linear):
            nn.init.zeros_(values)

    def fill(self, values: Float[Tensor, "..."], deviation: float) -> None:
        """Draws a matrix."""
        nn.init.normal_(values, std=deviation)


class TruncatedNormal(Normal):
    """Normal, truncated at two standard deviations, as in BERT.

    Every matrix normal within two deviations of zero, biases of linear maps zero, all sublayers alike.

    BERT, Devlin et al. 2018: https://arxiv.org/abs/1810.04805, as in its authors' code
    (`create_initializer` in https://github.com/google-research/bert/blob/master/modeling.py).

    Args:
        deviation: Of all matrices, before what lies beyond two of it is drawn again.
        residual: Whether what adds to the residual stream is divided, as in `normal`.
    """

    def __init__(self, *, deviation: Deviation = 0.02, residual: bool = False) -> None:
        super().__init__(deviation=deviation, residual=residual)

    def fill(self, values: Float[Tensor, "..."], deviation: float) -> None:
        """Draws a matrix."""
        nn.init.trunc_normal_(values, std=deviation, a=-2 * deviation, b=2 * deviation)
