"""Learned positional encoding: a table with a vector for each position, added to the embeddings."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.errors import LengthError
from plugformer.interfaces import ModelContext, PositionalEncoding, Positions


class Learned(PositionalEncoding):
    """Adds a learned vector for each position up to `model.max_length`.

    Convolutional Sequence to Sequence Learning, Gehring et al. 2017, section 3.1:
    https://arxiv.org/abs/1705.03122; compared with sinusoids in Attention Is All You Need, table 3, row E.
    The table is (max_length, width).

    Args:
        model: Sizes of the model; `max_length` is the number of rows.
    """

    def __init__(self, model: ModelContext) -> None:
        super().__init__()
        self.table = nn.Embedding(model.max_length, model.width)

    def embed(
        self, x: Float[Tensor, "batch length width"], positions: Positions
    ) -> Float[Tensor, "batch length width"]:
        """Adds each token's row.

        Raises:
            LengthError: The position of a token is `model.max_length` or more.
        """
        index = positions.index
        longest = self.table.num_embeddings
        if positions.end is None or positions.end > longest:
            unknown = positions.end is None or index.is_meta or torch.compiler.is_exporting()
            real = index if positions.mask is None else index.where(positions.mask, 0)
            length = 0 if unknown else int(real.max()) + 1
            if length > longest:
                raise LengthError(
                    f"a sequence of {length} tokens is longer than the {longest} learned positions: "
                    f"shorten it, or train with model.max_length of at least {length}"
                )
            index = index.clamp(max=longest - 1)  # of padding, any row
        rows: Tensor = self.table(index)
        return x + rows
