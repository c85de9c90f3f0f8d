"""The convolution of a Conformer: a sublayer beside attention, which mixes near tokens."""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import conv1d, glu, pad, silu

from plugformer.errors import ConfigurationError
from plugformer.interfaces import BIDIRECTIONAL, CAUSAL, Attention, Context, ModelContext, View


class Convolution(Attention):
    """silu(norm(depthwise(glu(x W_in)))) W_out, where the kernel reaches over the tokens nearby.

    Conformer, Gulati et al. 2020, section 2.2: https://arxiv.org/abs/2005.08100, with a layer norm where the
    paper has a batch norm, which would mix the rows of a batch. In a decoder the kernel reaches back alone.
    In a task::

        model:
          sublayers:
            convolution: {attention: {name: convolution, kernel: 31}, after: attention}

    Args:
        model: Sizes of the model, and the place of the sublayer.
        kernel: Tokens that the kernel reaches over; odd, so that as many are before a token as behind it.

    Raises:
        ConfigurationError: The kernel is even, or the sublayer reads another stack.
    """

    residual_path = ("output",)

    def __init__(
        self,
        model: ModelContext,
        *,
        kernel: Annotated[int, Field(ge=1, description="Tokens that the kernel reaches over; odd.")] = 15,
    ) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ConfigurationError(f"kernel {kernel} is even; expected an odd one, such as {kernel + 1}")
        if model.place.cross:
            raise ConfigurationError("a convolution reads its own sequence\nchoose another attention here")
        self.before = kernel - 1 if model.place.causal else kernel // 2
        self.behind = kernel - 1 - self.before
        self.input = nn.Linear(model.width, 2 * model.width)
        self.depthwise = nn.Conv1d(model.width, model.width, kernel, groups=model.width)
        self.norm = nn.LayerNorm(model.width)
        self.output = nn.Linear(model.width, model.width)

    def follows(self, view: View) -> bool:
        """Returns whether tokens see all others, or all before them."""
        return view in (BIDIRECTIONAL, CAUSAL)

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns what the kernel makes of each token and those nearby; decoding keeps the last ones."""
        hidden = glu(self.input(x))
        if context.real is not None:
            hidden = hidden * context.real[..., None]
        if context.past is None:
            whole = pad(hidden, (0, 0, self.before, self.behind))
        else:
            whole = torch.cat([context.past[0], hidden], dim=1)
        if context.slots is not None:
            count = x.shape[1] if context.real is None else context.real.sum(dim=1, keepdim=True)
            last = torch.arange(self.before, device=x.device) + count  # behind the real tokens of each row
            context.keep(whole.gather(1, last[..., None].expand(x.shape[0], -1, x.shape[2])))
        weight, bias = self.depthwise.weight, self.depthwise.bias
        mixed = conv1d(whole.transpose(1, 2), weight, bias, groups=x.shape[2]).transpose(1, 2)
        output: Tensor = self.output(silu(self.norm(mixed)))
        return output.to(x.dtype)
