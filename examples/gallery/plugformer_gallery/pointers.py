"""Pointers into a text, such as to the first word of an answer and to the one behind it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from plugformer.interfaces import Head, HeadContext, HeadInput, Level, Likelihoods, OutputType

_NEVER = -1e9
"""The score of a place that nothing points at."""


class Pointers(Head):
    """Points with every output but the first at one token of the text.

    Devlin et al. 2019, section 4.2: https://arxiv.org/abs/1810.04805. The probability of a token is a softmax
    over the text of how much better the pointer's output fits it than output 0 does. The best tokens are
    those of the highest sum whose order is that of the outputs: an answer's end is behind its beginning.

    Args:
        model: Sizes of the model and number of outputs.
    """

    levels = frozenset({Level.TOKEN})
    depends_on = "example"
    output_types = frozenset({OutputType.TEXT})

    def __init__(self, model: HeadContext) -> None:
        super().__init__()
        self.output = nn.Linear(model.width, model.outputs)

    def logits(
        self,
        hidden: Float[Tensor, "batch length width"],
        context: HeadInput,  # noqa: ARG002 (all are scored)
    ) -> Float[Tensor, "batch length outputs"]:
        """Returns the scores of every output at every token."""
        logits: Tensor = self.output(hidden)
        return logits

    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Int[Tensor, "batch length"],
        context: HeadInput,
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the negative log-probability of what is pointed at, and the number of tokens."""
        losses = -self._log_probabilities(hidden, targets, context)
        return context.weighted(losses).sum(), context.real.sum()

    def likelihoods(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Int[Tensor, "batch length"],
        context: HeadInput,
    ) -> Likelihoods:
        """Returns how probable each text's tokens are, and of how many the best outputs are right."""
        right = (self.best(hidden, context)[0] == targets) & context.real
        found = self._log_probabilities(hidden, targets, context)
        return Likelihoods(context.weighted(-found), context.real.sum(dim=1), found, right.sum(dim=1))

    def best(
        self, hidden: Float[Tensor, "batch length width"], context: HeadInput
    ) -> tuple[Int[Tensor, "batch length"], Float[Tensor, " batch"]]:
        """Returns the best tokens in the order of the outputs, each behind the one before."""
        first, *others = self._pointed(hidden, context).unbind(dim=-1)
        total, choices = first, []
        for scores in others:
            best, before = total.cummax(dim=1)  # up to each token; the next pointer is behind it
            choices.append(before.roll(1, dims=1))
            total = scores + best.roll(1, dims=1)
            total[:, 0] = _NEVER
        score, place = total.max(dim=1)
        places = [place]
        for before in reversed(choices):
            places.append(place := before.gather(1, place[:, None])[:, 0])
        outputs = torch.zeros_like(context.real, dtype=torch.int64)
        for number, place in enumerate(reversed(places), start=1):
            outputs.scatter_(1, place[:, None], number)
        there = score > _NEVER / 2  # else there are fewer tokens than pointers
        return outputs * there[:, None], score.masked_fill(~there, 0.0)

    def _log_probabilities(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Int[Tensor, "batch length"],
        context: HeadInput,
    ) -> Float[Tensor, " batch"]:
        scores = self._pointed(hidden, context)
        pointed = targets[..., None] == torch.arange(1, scores.shape[-1] + 1, device=targets.device)
        return scores.masked_fill(~(pointed & context.real[..., None]), 0.0).sum(dim=(1, 2))

    def _pointed(
        self, hidden: Float[Tensor, "batch length width"], context: HeadInput
    ) -> Float[Tensor, "batch length pointers"]:
        """Returns the log-probability of each token for each pointer, very low where none is real."""
        logits, padding = self.logits(hidden, context).float(), ~context.real[..., None]
        scores = (logits[..., 1:] - logits[..., :1]).masked_fill(padding, _NEVER)
        return scores.log_softmax(dim=1).masked_fill(padding, _NEVER)
