"""What the attentions here share: the width cut into heads, and put together again."""

from jaxtyping import Float
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import ModelContext


def require_divisible(model: ModelContext) -> None:
    """Refuses a width that heads cannot share evenly.

    Raises:
        ConfigurationError: The heads do not divide the width.
    """
    if model.width % model.heads:
        raise ConfigurationError(
            f"{model.heads} heads do not divide the width {model.width}; expected a multiple of "
            f"{model.heads}: change model.width or model.heads"
        )


def merged(heads: Float[Tensor, "batch heads length head_width"]) -> Float[Tensor, "batch length width"]:
    """Puts heads side by side."""
    return heads.transpose(1, 2).flatten(-2)
