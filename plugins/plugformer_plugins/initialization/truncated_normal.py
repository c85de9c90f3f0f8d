"""Normally distributed initial values without the far ones, as BERT has them."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer_plugins.initialization.normal import Deviation, Normal


class TruncatedNormal(Normal):
    """Every matrix normal within two deviations of zero, biases of linear maps zero, all sublayers alike.

    BERT, Devlin et al. 2018: https://arxiv.org/abs/1810.04805, as in its authors' code
    (`create_initializer` in https://github.com/google-research/bert/blob/master/modeling.py).

    Args:
        deviation: Of all matrices, before what lies beyond two of it is drawn again.
        residual: Whether what adds to the residual stream is divided, as in `normal`.
    """

    def __init__(
        self,
        *,
        deviation: Deviation = 0.02,
        residual: Annotated[
            bool, Field(description="Divide the last map of each sublayer by the root of their number.")
        ] = False,
    ) -> None:
        super().__init__(deviation=deviation, residual=residual)

    def fill(self, values: Float[Tensor, "..."], deviation: float) -> None:
        """Draws a matrix."""
        nn.init.trunc_normal_(values, std=deviation, a=-2 * deviation, b=2 * deviation)
