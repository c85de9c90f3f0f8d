"""Relative position representations: queries are compared with the distance of a key as with the key."""

from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import ModelContext, PositionalEncoding, Positions


class RelativePositionRepresentations(PositionalEncoding):
    """Scores (q k + q a) / sqrt(d), with a learned vector a for each distance of query and key.

    Self-Attention with Relative Position Representations, Shaw et al. 2018, equation 4:
    https://arxiv.org/abs/1803.02155. Distances are clipped (section 3.2); heads share the vectors
    (section 3.3), and so do all layers of a stack here. Of the paper's two sets of vectors this is the one at
    the keys; in table 3, a second one at the values makes no further difference.

    The table is (2 max_distance + 1, head width), from the farthest behind to the farthest ahead.

    Args:
        model: Sizes of the model.
        max_distance: Distance from which all share a vector.
        head_width: Width of the heads that attention compares. None: the model's width over its heads.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        max_distance: Annotated[int, Field(ge=1, description="Distance from which all share a vector.")] = 16,
        head_width: Annotated[
            int | None, Field(ge=1, description="Width of attention's heads; if null, width / heads.")
        ] = None,
    ) -> None:
        super().__init__()
        self.max_distance = max_distance
        width = head_width or max(1, model.width // model.heads)
        self.table = nn.Parameter(torch.empty(2 * max_distance + 1, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the vectors as the authors' implementation does."""
        nn.init.xavier_uniform_(self.table)

    def content_bias(
        self,
        query_heads: Float[Tensor, "batch heads query head_width"],
        key_heads: Float[Tensor, "batch groups key head_width"],  # noqa: ARG002 (of keys only the distance counts)
        query: Positions,
        key: Positions,
    ) -> Float[Tensor, "batch heads query key"]:
        """Returns q a for every query and key.

        Raises:
            ConfigurationError: The heads are not as wide as the vectors.
        """
        if query_heads.shape[-1] != self.table.shape[1]:
            raise ConfigurationError(
                f"the attention compares heads of width {query_heads.shape[-1]}, and the relative position "
                f"representations have width {self.table.shape[1]}: set head_width to {query_heads.shape[-1]}"
            )
        ahead = key.index[:, None, :] - query.index[:, :, None]  # (1 or batch, query, key)
        row = ahead.clamp(-self.max_distance, self.max_distance) + self.max_distance
        products = query_heads @ self.table.T  # every distance once, instead of a vector for every pair
        return products.gather(-1, row[:, None].expand(*products.shape[:3], -1))
