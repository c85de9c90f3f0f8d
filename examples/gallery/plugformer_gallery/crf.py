"""A conditional random field over the tags of a text: Lample et al. 2016, section 2.2.

https://arxiv.org/abs/1603.01360
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from plugformer.interfaces import Head, HeadContext, HeadInput, Level, Likelihoods


class CRF(Head):
    """Scores of each word's tags, of each tag after another, and of the first and last tag; tags go together.

    See https://arxiv.org/abs/1603.01360.

    Args:
        model: Sizes of the model and number of tags.
    """

    levels = frozenset({Level.TOKEN})
    depends_on = "example"

    def __init__(self, model: HeadContext) -> None:
        super().__init__()
        self.output = nn.Linear(model.width, model.outputs)
        self.following = nn.Parameter(torch.empty(model.outputs, model.outputs))
        self.ends = nn.Parameter(torch.empty(2, model.outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the scores of tags after others to zero: at first each word is tagged by itself."""
        nn.init.zeros_(self.following)
        nn.init.zeros_(self.ends)

    def logits(
        self,
        hidden: Float[Tensor, "batch length width"],
        context: HeadInput,  # noqa: ARG002 (all are scored)
    ) -> Float[Tensor, "batch length outputs"]:
        """Returns the scores of every tag at every token, without its neighbors."""
        logits: Tensor = self.output(hidden)
        return logits

    def loss(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Int[Tensor, "batch length"],
        context: HeadInput,
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Returns the negative log-probability of all tags, and their number."""
        losses = -self._log_probabilities(hidden, targets, context)
        return context.weighted(losses).sum(), context.real.sum()

    def likelihoods(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Int[Tensor, "batch length"],
        context: HeadInput,
    ) -> Likelihoods:
        """Returns how probable each text's tags are together, and how many the best tags have right."""
        right = (self.best(hidden, context)[0] == targets) & context.real
        found = self._log_probabilities(hidden, targets, context)
        return Likelihoods(context.weighted(-found), context.real.sum(dim=1), found, right.sum(dim=1))

    def best(
        self, hidden: Float[Tensor, "batch length width"], context: HeadInput
    ) -> tuple[Int[Tensor, "batch length"], Float[Tensor, " batch"]]:
        """Returns the most probable tags of each text, by Viterbi's algorithm, and their log-probability."""
        order, scores, there = _words(self.logits(hidden, context).float(), context.real)
        total, choices = self.ends[0] + scores[:, 0], []
        for step in range(1, scores.shape[1]):
            best, before = (total[:, :, None] + self.following).max(dim=1)
            go_on = there[:, step, None]
            choices.append(torch.where(go_on, before, torch.arange(before.shape[1], device=before.device)))
            total = torch.where(go_on, best + scores[:, step], total)
        score, tag = (total + self.ends[1]).max(dim=1)
        tags = [tag]
        for before in reversed(choices):
            tag = before.gather(1, tag[:, None])[:, 0]
            tags.append(tag)
        outputs = torch.zeros_like(order).scatter(1, order, torch.stack(tags[::-1], dim=1))
        found = (score - self._normalizer(scores, there)).masked_fill(~there[:, 0], 0.0)
        return outputs, found

    def _log_probabilities(
        self,
        hidden: Float[Tensor, "batch length width"],
        targets: Int[Tensor, "batch length"],
        context: HeadInput,
    ) -> Float[Tensor, " batch"]:
        order, scores, there = _words(self.logits(hidden, context).float(), context.real)
        tags = targets.gather(1, order).masked_fill(~there, 0)
        own = scores.gather(2, tags[..., None])[..., 0].masked_fill(~there, 0.0).sum(dim=1)
        pairs = self.following[tags[:, :-1], tags[:, 1:]].masked_fill(~there[:, 1:], 0.0).sum(dim=1)
        last = tags.gather(1, there.sum(dim=1, keepdim=True).clamp(min=1) - 1)[:, 0]
        ends = self.ends[0][tags[:, 0]] + self.ends[1][last]
        return (own + pairs + ends - self._normalizer(scores, there)).masked_fill(~there[:, 0], 0.0)

    def _normalizer(
        self, scores: Float[Tensor, "batch words outputs"], there: Bool[Tensor, "batch words"]
    ) -> Float[Tensor, " batch"]:
        """Returns the logarithm of the sum over all sequences of tags."""
        total = self.ends[0] + scores[:, 0]
        for step in range(1, scores.shape[1]):
            longer = (total[:, :, None] + self.following).logsumexp(dim=1) + scores[:, step]
            total = torch.where(there[:, step, None], longer, total)
        return (total + self.ends[1]).logsumexp(dim=1)


def _words(
    logits: Float[Tensor, "batch length outputs"], real: Bool[Tensor, "batch length"]
) -> tuple[Int[Tensor, "batch length"], Float[Tensor, "batch length outputs"], Bool[Tensor, "batch length"]]:
    """Returns the places of tokens with those that have a tag first, their scores, and which have one."""
    order = (~real).int().argsort(dim=1, stable=True)
    there = real.gather(1, order)
    return order, logits.gather(1, order[..., None].expand_as(logits)), there
