"""Attention whose layers share keys and values with the layers above."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Attention, Context, ModelContext
from plugformer_blocks import project_heads, softmax_attention, split_heads
from plugformer_gallery.heads import merged, require_divisible


class CrossLayerAttention(Attention):
    """Attention that takes keys and values from the first layer of its group.

    Cross-layer attention (CLA), Brandon et al. 2024, section 3.1: https://arxiv.org/abs/2405.12981. The
    layers of a group keep one key-value cache between them. With `kv_heads` below the model's heads it is
    combined with multi-query or grouped-query attention, as in the paper's experiments.

    Args:
        model: Sizes of the model, and the place of the attention.
        sharing: Layers in a group, the paper's sharing factor.
        kv_heads: Heads of keys and values; as many as the model's if None.

    Raises:
        ConfigurationError: The heads do not divide the width, or `kv_heads` do not divide the heads.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        sharing: Annotated[int, Field(ge=2, description="Layers that share keys and values.")] = 2,
        kv_heads: Annotated[
            int | None, Field(ge=1, description="Heads of keys and values; the model's if null.")
        ] = None,
    ) -> None:
        super().__init__()
        require_divisible(model)
        self.heads, self.kv_heads = model.heads, kv_heads or model.heads
        if self.heads % self.kv_heads:
            raise ConfigurationError(
                f"{self.kv_heads} key-value heads do not divide {self.heads} heads; choose another kv_heads"
            )
        self.dropout, self.width = model.attention_dropout, model.width // model.heads
        self.query, self.output = (nn.Linear(model.width, model.width) for _ in range(2))
        first = model.place.layer - model.place.layer % sharing
        if first == model.place.layer:
            shared_width = self.width * self.kv_heads
            self.key, self.value = (nn.Linear(model.width, shared_width) for _ in range(2))
        else:
            self.reads_layer = first

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns what each token reads of the group's keys and values."""
        if self.reads_layer is None:
            query, key, value = project_heads(x, context, self.query, self.key, self.value, width=self.width)
        else:
            query = context.rotate(split_heads(self.query(x), self.width))
            key, value = context.shared
        dropout = self.dropout if self.training else 0.0
        output: Tensor = self.output(merged(softmax_attention(query, key, value, context, dropout=dropout)))
        return output
