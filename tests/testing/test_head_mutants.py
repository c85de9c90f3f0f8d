"""Every check of heads catches a fault that it is there for."""

from dataclasses import replace

import pytest
import torch
from tests.testing.mutants import after, instead, mutant_tests
from torch import nn
from torch.nn import functional
from torch.nn.functional import cross_entropy

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Head, Level, Likelihoods, OutputType
from plugformer.registry import Kind
from plugformer_plugins.head.language_model import LanguageModel
from plugformer_plugins.head.pairs import Contrastive
from plugformer_plugins.head.pooling import Classifier, MultiLabelClassifier, Pooled, Regressor
from plugformer_plugins.head.token_classifier import TokenClassifier
from plugformer_testing import check


def everywhere(context):
    """Returns a context in which padding counts."""
    return replace(context, real=torch.ones_like(context.real))


class AveragesOverPadding(LanguageModel):
    """Computes the loss at padding too."""

    def loss(self, hidden, targets, context):
        loss, _ = super().loss(hidden, targets, everywhere(context))
        return loss * context.real.sum() / context.real.numel(), context.real.sum()


class LearnsPadding(LanguageModel):
    """Predicts what stands at padding while it is trained, from all of a sequence together."""

    depends_on = "example"

    def loss(self, hidden, targets, context):
        counted = everywhere(context) if self.training else context
        return super().loss(hidden, targets, counted)[0], context.real.sum()


class SmoothInEvaluation(LanguageModel):
    def loss(self, hidden, targets, context):
        training, self.training, self.label_smoothing = self.training, True, 0.2
        loss = super().loss(hidden, targets, context)
        self.training = training
        return loss


class Focal(Classifier):
    """The focal loss, Lin et al. 2017, equation 4, https://arxiv.org/abs/1708.02002, with a gamma of 2."""

    def losses(self, logits, targets):
        plain = cross_entropy(logits, targets, reduction="none")
        return (1 - (-plain).exp()).square() * plain


class FocalIsNoProbability(Focal):
    def likelihoods(self, hidden, targets, context):
        found = super().likelihoods(hidden, targets, context)
        return found._replace(log_probabilities=-found.losses)


class Hinge(TokenClassifier):
    """The sum of margins that are less than 1: Weston and Watkins 1999."""

    probabilities = False

    def losses(self, logits, targets):
        right = logits.gather(1, targets[:, None])
        return (1 + logits - right).clamp(min=0).sum(dim=1) - 1


class NumberOfEachToken(TokenClassifier):
    output_types = frozenset({OutputType.NUMBERS})
    probabilities = False

    def losses(self, logits, targets):
        return (logits[:, 0] - targets).abs()


class ClaimsToo(Hinge):
    probabilities = True

    def likelihoods(self, hidden, targets, context):
        return super().likelihoods(hidden, targets, context)._replace(log_probabilities=None)


class Detached(Classifier):
    def loss(self, hidden, targets, context):
        return super().loss(hidden.detach(), targets, context)


class Doubled(Classifier):
    """Shows a loss of which only a tenth is learned."""

    def losses(self, logits, targets):
        losses = super().losses(logits, targets)
        return losses.detach() * 0.9 + losses * 0.1


class DropsOut(Classifier):
    def losses(self, logits, targets):
        return super().losses(functional.dropout(logits), targets)


class Neighbors(TokenClassifier):
    """Adds the next token's losses, and so depends on the example."""

    def loss(self, hidden, targets, context):
        loss, count = super().loss(hidden, targets, context)
        return loss + super().loss(hidden + hidden.roll(1, dims=1), targets, context)[0], count

    def likelihoods(self, hidden, targets, context):
        one, other = (
            super(Neighbors, self).likelihoods(h, targets, context)
            for h in (hidden, hidden + hidden.roll(1, dims=1))
        )
        return one._replace(losses=one.losses + other.losses)


class InBatch(Classifier):
    """Compares each example with the others, as in-batch negatives do."""

    depends_on = "batch"
    probabilities = False

    def loss(self, hidden, targets, context):
        found = self.likelihoods(hidden, targets, context)
        return found.losses.sum(), found.targets.sum()

    def likelihoods(self, hidden, targets, context):
        logits = self.logits(hidden, context)
        scores = logits @ logits.T
        losses = context.weighted(cross_entropy(scores, torch.arange(len(scores)), reduction="none"))
        return Likelihoods(losses, torch.ones_like(targets), None, None)


class Earlier(InBatch):
    """Gives the first example of a batch more weight."""

    def likelihoods(self, hidden, targets, context):
        found = super().likelihoods(hidden, targets, context)
        return found._replace(losses=found.losses / torch.arange(1, len(targets) + 1))


class Pairs(Head):
    """Finds the second text of each pair among those of the batch."""

    levels = frozenset({Level.VECTOR})
    depends_on = "batch"
    probabilities = False

    def __init__(self, model):
        super().__init__()
        if len(model.inputs) != 2 or model.inputs[1].many:
            raise ConfigurationError("it compares two texts")
        self.temperature = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.constant_(self.temperature, 5.0)

    def logits(self, hidden, context):
        return hidden.prod(dim=1).sum(dim=-1, keepdim=True) / self.temperature

    def likelihoods(self, hidden, targets, context):
        first, second = hidden.unbind(dim=1)
        scores = first @ second.T / self.temperature
        same = (targets[:, None] == targets).fill_diagonal_(False)
        right = torch.arange(len(scores))
        losses = cross_entropy(scores.masked_fill(same, -torch.inf), right, reduction="none")
        return Likelihoods(context.weighted(losses), torch.ones_like(targets), None, None)


class Choice(Head):
    """Scores each candidate by its product with the question."""

    levels = frozenset({Level.VECTOR})

    def __init__(self, model):
        super().__init__()
        self.output = nn.Linear(model.width, model.width)

    def logits(self, hidden, context):
        scores = (self.output(hidden[:, :1]) * hidden[:, 1:]).sum(dim=-1)
        return scores.masked_fill(~context.real[:, 1:], -torch.inf)


class AbsentCandidates(Choice):
    def logits(self, hidden, context):
        return super().logits(hidden, everywhere(context))


class IgnoresWeights(TokenClassifier):
    """Weighs targets in evaluation alone."""

    def loss(self, hidden, targets, context):
        return super().loss(hidden, targets, replace(context, weights=None) if self.training else context)


class WeighsTokensByTheFirst(LanguageModel):
    """Has one weight for all targets of an example, also where each has its own."""

    def loss(self, hidden, targets, context):
        weights = context.weights
        first = None if weights is None else weights.view(len(weights), -1)[:, 0]
        return super().loss(hidden, targets, replace(context, weights=first))


class CountsWeights(Classifier):
    """Counts the targets by their weights."""

    def likelihoods(self, hidden, targets, context):
        found = super().likelihoods(hidden, targets, context)
        return found._replace(targets=context.weighted(found.targets).long())


class NotInBatch(Classifier):
    depends_on = "batch"


class PoolsPadding(Classifier):
    def logits(self, hidden, context):
        return super().logits(hidden, everywhere(context))


class AveragesTheMemory(LanguageModel):
    """Adds the mean of the memory, padding included."""

    reads = frozenset({"memory"})

    def logits(self, hidden, context):
        return super().logits(hidden + context.memory.mean(dim=1, keepdim=True), context)


class CountsTheSource(AveragesTheMemory):
    """Sums the memory at real tokens, but divides by the number of all."""

    def logits(self, hidden, context):
        real = context.memory.masked_fill(~context.source.mask[..., None], 0.0)
        return LanguageModel.logits(self, hidden + real.mean(dim=1, keepdim=True), context)


class NothingIsNotANumber(LanguageModel):
    def loss(self, hidden, targets, context):
        real = context.real
        mean = cross_entropy(self.logits(hidden, context)[real], targets[real])
        return mean * real.sum(), real.sum()


class LooksAhead(LanguageModel):
    def logits(self, hidden, context):
        return super().logits(hidden.flip(1).cumsum(dim=1).flip(1), context)


class CopiesTheEmbedding(LanguageModel):
    def __init__(self, model):
        super().__init__(model)
        if model.tied is not None:
            self.weight = nn.Parameter(model.tied.detach().clone())


class TwoParts(Pooled):
    """A class and a number: answers, and so targets, of a kind that no built-in part knows."""

    output_types = frozenset({"class and number"})
    probabilities = False

    @classmethod
    def check_case(cls, real):
        return torch.tensor([[0.0, 1.5], [2.0, -1.0]]).double().repeat(len(real), 1)[: len(real)], 4

    def losses(self, logits, targets):
        classes = cross_entropy(logits[:, :-1], targets[:, 0].long(), reduction="none")
        return classes + (logits[:, -1] - targets[:, 1]).square()


def losing(name, base, change):
    """Returns a head whose losses and counts are changed."""
    return after(
        name, base, loss=lambda self, found, _, targets, context: change(*found, targets, context.real)
    )


def likely(name, base, **parts):
    """Returns a head of whose likelihoods parts are changed."""

    def likelihoods(self, found, hidden, targets, context):
        return found._replace(**{part: change(found, targets) for part, change in parts.items()})

    return after(name, base, likelihoods=likelihoods)


MUTANTS = {
    "likelihoods_are_those_of_the_loss": (
        *(SmoothInEvaluation, ClaimsToo, DropsOut),
        likely("Half", Classifier, losses=lambda found, _: found.losses / 2),
        likely("RightNumbers", Regressor, correct=lambda found, targets: torch.zeros_like(found.targets)),
    ),
    "shapes": (
        likely(
            "Labels", MultiLabelClassifier, targets=lambda found, targets: found.targets * targets.shape[1]
        ),
        losing("CountsBoth", TwoParts, lambda loss, _, targets, real: (loss, torch.tensor(targets.numel()))),
        after("LengthFirst", LanguageModel, logits=lambda self, logits, *_: logits.transpose(1, 2)),
        after("FourAxes", LanguageModel, logits=lambda self, logits, *_: logits[..., None]),
        losing("Padding", LanguageModel, lambda loss, _, targets, real: (loss, torch.tensor(real.numel()))),
    ),
    "probabilities_are_true": (
        FocalIsNoProbability,
        likely(
            "Each",
            MultiLabelClassifier,
            log_probabilities=lambda found, targets: found.log_probabilities / targets.shape[1],
        ),
    ),
    "the_best_is_as_probable_as_it_says": (
        after(
            "Unnormalized",
            TokenClassifier,
            best=lambda self, best, hidden, real: (best[0], best[1] - 1),
        ),
        after("Worst", Classifier, best=lambda self, best, *_: ((best[0] + 1) % 7, best[1])),
    ),
    "a_step_along_the_gradient_lowers_the_loss": (Detached, Doubled),
    "the_order_of_the_batch_does_not_matter": (Earlier, NotInBatch),
    "padding_does_not_count": (
        *(AbsentCandidates, AveragesOverPadding, LearnsPadding, PoolsPadding),
        *(AveragesTheMemory, CountsTheSource),
    ),
    "the_loss_adds_up": (
        losing("Averages", LanguageModel, lambda loss, count, *_: (loss / count.clamp(min=1), count)),
        Neighbors,
    ),
    "weights_multiply_the_losses": (IgnoresWeights, WeighsTokensByTheFirst, CountsWeights),
    "without_real_targets_there_is_no_loss": (NothingIsNotANumber,),
    "rows_are_independent": (
        after("SharesTheBatch", Classifier, logits=lambda self, logits, *_: logits - logits.mean(dim=0)),
        LooksAhead,
        after("Centers", Contrastive, vectors=lambda self, vectors, _: vectors - vectors.mean(dim=0)),
    ),
    "a_tied_embedding_is_left_alone": (
        instead("Redraws", LanguageModel, reset_parameters=lambda self: nn.init.normal_(self.weight)),
        CopiesTheEmbedding,
    ),
}


@pytest.mark.parametrize("head", [TwoParts, Focal, Hinge, NumberOfEachToken, InBatch, Pairs, Choice])
def test_other_losses_are_sound(head):
    found = check(head)
    assert found.counts["failed"] == 0, str(found)


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.HEAD)
