"""Every check of heads catches a fault that it is there for."""

from dataclasses import replace

import pytest
import torch
from tests.testing.mutants import after, fault_test
from tests.testing.outcomes import failure
from torch import nn
from torch.nn.functional import cross_entropy

from plugformer.interfaces import Head, Level
from plugformer.registry import Kind
from plugformer_plugins.head.language_model import LanguageModel
from plugformer_plugins.head.pairs import Contrastive
from plugformer_plugins.head.pooling import Classifier
from plugformer_plugins.head.token_classifier import TokenClassifier


def everywhere(context):
    """Returns a context in which padding counts."""
    return replace(context, real=torch.ones_like(context.real))


class AveragesOverPadding(LanguageModel):
    """Computes the loss at padding too."""

    def loss(self, hidden, targets, context):
        loss, _ = super().loss(hidden, targets, everywhere(context))
        return loss * context.real.sum() / context.real.numel(), context.real.sum()


class SmoothInEvaluation(LanguageModel):
    def loss(self, hidden, targets, context):
        training, self.training, self.label_smoothing = self.training, True, 0.2
        loss = super().loss(hidden, targets, context)
        self.training = training
        return loss


class IgnoresWeights(TokenClassifier):
    """Weighs targets in evaluation alone."""

    def loss(self, hidden, targets, context):
        return super().loss(hidden, targets, replace(context, weights=None) if self.training else context)


class NotInBatch(Classifier):
    depends_on = "batch"


class ChoosesWhatIsAbsent(Head):
    """Gives candidates that an example lacks a probability."""

    levels = frozenset({Level.VECTOR})

    def __init__(self, model):
        super().__init__()
        self.map = nn.Linear(model.width, model.width)

    def logits(self, hidden, context):
        scores = (self.map(hidden[:, 1:]) * hidden[:, :1]).sum(dim=-1)
        return scores.masked_fill(~context.real[:, 1:], 0.0)


class AveragesTheMemory(LanguageModel):
    """Adds the mean of the memory, padding included."""

    reads = frozenset({"memory"})

    def logits(self, hidden, context):
        return super().logits(hidden + context.memory.mean(dim=1, keepdim=True), context)


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


def losing(name, base, change):
    """Returns a head whose losses and counts are changed."""
    return after(
        name, base, loss=lambda self, found, _, targets, context: change(*found, targets, context.real)
    )


MUTANTS = {
    "likelihoods_are_those_of_the_loss": SmoothInEvaluation,
    "shapes": losing(
        "Padding", LanguageModel, lambda loss, _, targets, real: (loss, torch.tensor(real.numel()))
    ),
    "probabilities_are_true": after(
        "Doubled",
        Classifier,
        likelihoods=lambda self, found, *_: found._replace(log_probabilities=2 * found.log_probabilities),
    ),
    "the_best_is_as_probable_as_it_says": after(
        "Worst", Classifier, best=lambda self, best, *_: ((best[0] + 1) % 7, best[1])
    ),
    "padding_does_not_count": AveragesOverPadding,
    "the_loss_adds_up": losing(
        "Averages", LanguageModel, lambda loss, count, *_: (loss / count.clamp(min=1), count)
    ),
    "weights_multiply_the_losses": IgnoresWeights,
    "without_real_targets_there_is_no_loss": NothingIsNotANumber,
    "rows_are_independent": LooksAhead,
    "a_tied_embedding_is_left_alone": CopiesTheEmbedding,
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.HEAD)


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("the_loss_adds_up", NotInBatch),
        ("padding_does_not_count", AveragesTheMemory),
        (
            "rows_are_independent",
            after("Centers", Contrastive, vectors=lambda self, vectors, _: vectors - vectors.mean(dim=0)),
        ),
        ("rows_are_independent", ChoosesWhatIsAbsent),
    ],
)
def test_faults_of_heads_that_compare_or_read_more_are_caught(name, mutant):
    failure(mutant, name)
