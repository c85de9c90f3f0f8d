"""No positional encoding."""

from plugformer.interfaces import ModelContext, PositionalEncoding


class NoPositionalEncoding(PositionalEncoding):
    """No positional encoding; only the causal mask depends on order.

    Leaves embeddings, heads and scores as they are.

    A causal decoder still sees order through its mask: The Impact of Positional Encoding on Length
    Generalization in Transformers, Kazemnejad et al. 2023, section 5: https://arxiv.org/abs/2305.19466.
    An encoder without positions reads a bag of tokens.

    Args:
        model: Sizes of the model.
    """

    def __init__(self, model: ModelContext) -> None:
        super().__init__()
