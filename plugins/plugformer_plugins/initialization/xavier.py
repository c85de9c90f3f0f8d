"""Xavier's initial values, by the size of each matrix."""

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Initialization, ParameterContext


class Xavier(Initialization):
    """Every matrix uniform within ±sqrt(6 / (inputs + outputs)); the rest is what its module draws.

    Understanding the difficulty of training deep feedforward neural networks, Glorot and Bengio 2010,
    equation 16: https://proceedings.mlr.press/v9/glorot10a.html.
    """

    def draw(self, values: Float[Tensor, "..."], parameter: ParameterContext) -> None:
        """Draws matrices."""
        if values.dim() > 1:
            nn.init.xavier_uniform_(values)
