"""Residual connections: where they normalize, and what they scale."""

from collections.abc import Mapping
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import Residual, ResidualContext, Sublayer

Stream = Float[Tensor, "batch length width"]


def make_norms(model: ResidualContext) -> nn.ModuleDict:
    """Returns a norm for each sublayer."""
    return nn.ModuleDict({name: model.norm() for name in model.sublayers})


class NormedSublayers(Residual):
    """A residual connection with a norm for each sublayer.

    Args:
        model: Names the sublayers and makes their norms.
    """

    def __init__(self, model: ResidualContext) -> None:
        super().__init__()
        self.norms = make_norms(model)


class PreNorm(NormedSublayers):
    """Pre-norm; each sublayer reads the normalized stream, and its output is added to the stream.

    x + f(norm(x)) for each sublayer f, and a norm above the last layer.

    On Layer Normalization in the Transformer Architecture, Xiong et al. 2020, figure 1 (b):
    https://arxiv.org/abs/2002.04745.
    """

    def forward(self, x: Stream, sublayers: Mapping[str, Sublayer]) -> Stream:
        """Adds to `x`, one after the other, what the sublayers make of its normalized value."""
        for name, sublayer in sublayers.items():
            x = sublayer.added(x, self.norms[name](x))
        return x


class PostNorm(NormedSublayers):
    """Post-norm; the stream is normalized after the output of each sublayer is added.

    norm(x + f(x)) for each sublayer f; there is no norm above the last layer.

    Attention Is All You Need, Vaswani et al. 2017, section 3.1: https://arxiv.org/abs/1706.03762.
    """

    final_norm = False

    def forward(self, x: Stream, sublayers: Mapping[str, Sublayer]) -> Stream:
        """Normalizes, one after the other, the sums of the stream and what the sublayers make of it."""
        for name, sublayer in sublayers.items():
            x = self.norms[name](sublayer.added(x, x))
        return x


class DeepNorm(NormedSublayers):
    """Post-norm with a scaled residual stream and smaller initial values, depending on the depth.

    norm(alpha x + f(x)) for each sublayer f; there is no norm above the last layer.

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
        super().__init__(model)
        layers, readers = model.place.layers, model.place.read_by
        if "cross_attention" in model.sublayers:
            self.alpha, self.gain = (3 * layers) ** 0.25, (12 * layers) ** -0.25
        elif readers:
            product = layers**4 * readers
            self.alpha, self.gain = 0.81 * product**0.0625, 0.87 * product**-0.0625
        else:
            self.alpha, self.gain = (2 * layers) ** 0.25, (8 * layers) ** -0.25

    def forward(self, x: Stream, sublayers: Mapping[str, Sublayer]) -> Stream:
        """Normalizes, one after the other, alpha times the stream plus what the sublayers make of it."""
        for name, sublayer in sublayers.items():
            x = self.norms[name](sublayer.added(self.alpha * x, x))
        return x


class LayerScale(NormedSublayers):
    """Pre-norm whose sublayers are multiplied by learned vectors that start small.

    x + scale * f(norm(x)) for each sublayer f, and a norm above the last layer.

    Going deeper with Image Transformers, Touvron et al. 2021, section 2, equation 4:
    https://arxiv.org/abs/2103.17239. A scale is (width,), one for each sublayer.

    Args:
        model: Names the sublayers, makes their norms, and tells the depth.
        init: What the scales start at. None: by the depth of the stack as in the paper, 0.1 up to 18 layers,
            1e-5 up to 24, 1e-6 beyond.
    """

    def __init__(
        self, model: ResidualContext, *, init: Annotated[float | None, Field(gt=0, le=1)] = None
    ) -> None:
        super().__init__(model)
        layers = model.place.layers
        by_depth = 0.1 if layers <= 18 else 1e-5 if layers <= 24 else 1e-6
        self.init = by_depth if init is None else init
        self.scales = nn.ParameterDict(
            {name: nn.Parameter(torch.empty(model.width)) for name in model.sublayers}
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets every scale to `init`."""
        for scale in self.scales.values():
            nn.init.constant_(scale, self.init)

    def forward(self, x: Stream, sublayers: Mapping[str, Sublayer]) -> Stream:
        """Adds to `x`, one after the other, the scaled outputs of the sublayers."""
        for name, sublayer in sublayers.items():
            x = torch.addcmul(x, sublayer(self.norms[name](x)), self.scales[name].to(x.dtype))
        return x


class SandwichNorm(Residual):
    """A norm before each sublayer and another one after it.

    x + norm'(f(norm(x))) for each sublayer f, and a norm above the last layer.

    CogView, Ding et al. 2021, section 2.4 (Sandwich-LN): https://arxiv.org/abs/2105.13290. What a sublayer
    adds to the stream is bounded, which its authors found necessary in float16. Dropout comes before the
    second norm.

    Args:
        model: Names the sublayers and makes their norms.
    """

    def __init__(self, model: ResidualContext) -> None:
        super().__init__()
        self.before = make_norms(model)
        self.after = make_norms(model)

    def forward(self, x: Stream, sublayers: Mapping[str, Sublayer]) -> Stream:
        """Adds to `x`, one after the other, the normalized outputs of the sublayers."""
        for name, sublayer in sublayers.items():
            x = x + self.after[name](sublayer(self.before[name](x)))
        return x


class ParallelResidual(Residual):
    """One norm for each layer; all of its sublayers read the same normalized stream.

    x + f(norm(x)) + g(norm(x)), with one norm for the whole layer, and a norm above the last layer.

    PaLM, Chowdhery et al. 2022, section 2 (parallel layers): https://arxiv.org/abs/2204.02311; first in GPT-J
    (https://github.com/kingoflolz/mesh-transformer-jax). In a layer that reads another stack, cross-attention
    is a third term.

    Args:
        model: Makes the norm.
    """

    def __init__(self, model: ResidualContext) -> None:
        super().__init__()
        self.norm = model.norm()

    def forward(self, x: Stream, sublayers: Mapping[str, Sublayer]) -> Stream:
        """Adds to `x` what the sublayers make of its normalized value."""
        hidden = self.norm(x)
        for sublayer in sublayers.values():
            x = sublayer.added(x, hidden)
        return x
