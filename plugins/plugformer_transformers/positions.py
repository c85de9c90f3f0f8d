"""Learned vectors of positions and texts with a norm above, as BERT and BART have them."""

from typing import Annotated

from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from plugformer.interfaces import ModelContext, Positions
from plugformer_plugins.position.learned import Learned


class Normalized(Learned):
    """Learned vectors of positions and of texts, added to the embeddings, and a layer norm, as in BERT.

    norm(x + position + segment): a learned vector for each position, and one for each text of an input.

    BERT, Devlin et al. 2019, figure 2: https://arxiv.org/abs/1810.04805, with the layer norm of its authors'
    code (`embedding_postprocessor`); without segments, BART. The tables are (max_length, width) and
    (segments, width).

    Args:
        model: Sizes of the model; `max_length` is the number of positions.
        segments: Number of vectors for texts; further texts of an input have the last one. 0 for none.
        epsilon: Of the norm.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        segments: Annotated[int, Field(ge=0, le=1024)] = 2,
        epsilon: Annotated[float, Field(gt=0)] = 1e-12,
    ) -> None:
        super().__init__(model)
        self.segments = nn.Embedding(segments, model.width) if segments else None
        self.norm = nn.LayerNorm(model.width, eps=epsilon)

    def embed(
        self, x: Float[Tensor, "batch length width"], positions: Positions
    ) -> Float[Tensor, "batch length width"]:
        """Adds each token's rows, and normalizes.

        Raises:
            LengthError: The position of a token is `model.max_length` or more.
        """
        x = super().embed(x, positions)
        if self.segments is not None:
            segment = positions.marks.get("segment")
            if segment is None:
                x = x + self.segments.weight[0]
            else:
                x = x + self.segments(segment.clamp(max=self.segments.num_embeddings - 1))
        normalized: Tensor = self.norm(x)
        return normalized
