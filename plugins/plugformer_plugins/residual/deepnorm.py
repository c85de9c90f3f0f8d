"""DeepNorm: post-norm whose stream is scaled up, and whose sublayers start small, by the depth."""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import LayerContext, Residual, ResidualContext, Sublayer


class DeepNorm(Residual):
    """norm(alpha x + f(x)) for each sublayer f; there is no norm above the last layer.

    DeepNet: Scaling Transformers to 1,000 Layers, Wang et al. 2022, figure 2:
    https://arxiv.org/abs/2203.00555. Initial values of the networks and of the value and output projections
    of attention are multiplied by beta (here `gain`), whichever scheme has drawn them; the paper's is
    Xavier's. With N layers in an encoder or a stack by itself and M in a decoder that reads one,

    - a stack by itself has alpha = (2 N)^(1/4) and beta = (8 N)^(-1/4);
    - an encoder that a decoder reads has alpha = 0.81 (N^4 M)^(1/16) and beta = 0.87 (N^4 M)^(-1/16);
    - a decoder that reads an encoder has alpha = (3 M)^(1/4) and beta = (12 M)^(-1/4).

    Args:
        model: Names the sublayers, makes their norms, and tells the depths.
    """

    final_norm = False

    def __init__(self, model: ResidualContext) -> None:
        super().__init__()
        self.alpha, self.gain = _alpha_and_beta(model.place, reading="cross_attention" in model.sublayers)
        self.norms = nn.ModuleDict({name: model.norm() for name in model.sublayers})

    def forward(
        self, x: Float[Tensor, "batch length width"], sublayers: Mapping[str, Sublayer]
    ) -> Float[Tensor, "batch length width"]:
        """Normalizes, one after the other, alpha times the stream plus what the sublayers make of it."""
        for name, sublayer in sublayers.items():
            x = self.norms[name](sublayer.added(self.alpha * x, x))
        return x


def _alpha_and_beta(place: LayerContext, *, reading: bool) -> tuple[float, float]:
    """Returns the factors of the stream and of initial values."""
    layers = place.layers
    if reading:
        return (3 * layers) ** 0.25, (12 * layers) ** -0.25
    if place.read_by:
        product = layers**4 * place.read_by
        return 0.81 * product**0.0625, 0.87 * product**-0.0625
    return (2 * layers) ** 0.25, (8 * layers) ** -0.25
