"""A pointer-generator: the next token is one of the vocabulary, or a copy of one of the source's."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Head, HeadContext, HeadInput, Level, OutputType

_TINY = 1e-9
"""Added to probabilities, whose logarithms would be minus infinity."""


class PointerGenerator(Head):
    """Mixes the vocabulary's distribution with an attention to the source, whose tokens can be copied.

    See et al. 2017, section 2.2: https://arxiv.org/abs/1704.04368. In their equations 1 to 4 and 8 the
    decoder's state attends to the encoder's outputs, which a head of a transformer computes by scaled dot
    products; the mixture is their equation 9. Source and target need one vocabulary.

    Args:
        model: Sizes of the model; the weight is `model.tied` where that is given.

    Raises:
        ConfigurationError: Source and target have two vocabularies.
    """

    levels = frozenset({Level.NEXT_TOKEN})
    output_types = frozenset({OutputType.TEXT})
    reads = frozenset({"source", "memory"})

    def __init__(self, model: HeadContext) -> None:
        super().__init__()
        if not model.shared_vocabulary:
            raise ConfigurationError(
                "a copied token needs one number for source and target, which have a vocabulary each\n"
                "give both one tokenizer (`tokenizer.shared: true`), or choose another head"
            )
        self.query = nn.Linear(model.width, model.width, bias=False)
        self.key = nn.Linear(model.width, model.width, bias=False)
        self.generates = nn.Linear(2 * model.width, 1)
        self.joint = nn.Linear(2 * model.width, model.width)
        self.tied = model.tied is not None
        new = torch.empty(model.outputs, model.width)
        self.weight = nn.Parameter(new) if model.tied is None else model.tied
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weight as torch.nn.Linear does, unless it is the embedding's."""
        if not self.tied:
            nn.init.kaiming_uniform_(self.weight, a=5**0.5)

    def logits(
        self, hidden: Float[Tensor, "batch length width"], context: HeadInput
    ) -> Float[Tensor, "batch length outputs"]:
        """Returns the logarithms of the mixed probabilities."""
        source, memory = context.source, context.memory
        assert memory is not None  # noqa: S101 (by `reads`)
        scores = self.query(hidden) @ self.key(memory).transpose(1, 2) / hidden.shape[-1] ** 0.5
        attention = scores.float().masked_fill(~source.mask[:, None], -torch.inf).softmax(dim=-1)
        state = torch.cat([hidden, (attention.to(memory.dtype) @ memory).to(hidden.dtype)], dim=-1)
        generates = self.generates(state).float().sigmoid()
        scores = functional.linear(self.joint(state).tanh(), self.weight)
        ids = source.ids[:, None].expand(attention.shape)
        mixed = generates * scores.float().softmax(dim=-1)
        probabilities = mixed.scatter_add(2, ids, (1 - generates) * attention)
        return (probabilities + _TINY).log().to(hidden.dtype)
