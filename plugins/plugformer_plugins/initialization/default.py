"""Each module's own initial values."""

from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import Initialization, ParameterContext


class Default(Initialization):
    """What each module draws itself; of linear maps, torch's uniform values within ±1 / sqrt(inputs).

    https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
    """

    def draw(self, values: Float[Tensor, "..."], parameter: ParameterContext) -> None:
        """Leaves everything as it is."""
