"""Every check of heads catches a fault that it is there for."""

import torch
from tests.testing.mutants import mutant_tests
from torch import nn
from torch.nn.functional import cross_entropy

from plugformer.interfaces import Likelihoods
from plugformer.registry import Kind
from plugformer_plugins.head.language_model import LanguageModel
from plugformer_plugins.head.pooling import Classifier, MultiLabelClassifier, Pooled, Regressor
from plugformer_testing import check


class LengthFirst(LanguageModel):
    def logits(self, hidden, real):
        return super().logits(hidden, real).transpose(1, 2)


class FourAxes(LanguageModel):
    def logits(self, hidden, real):
        return super().logits(hidden, real)[..., None]


class CountsPadding(LanguageModel):
    def loss(self, hidden, targets, real):
        return super().loss(hidden, targets, real)[0], torch.tensor(real.numel())


class Averages(LanguageModel):
    """Returns a mean instead of a sum."""

    def loss(self, hidden, targets, real):
        loss, count = super().loss(hidden, targets, real)
        return loss / count.clamp(min=1), count


class AveragesOverPadding(LanguageModel):
    """Computes the loss at padding too."""

    def loss(self, hidden, targets, real):
        loss, _ = super().loss(hidden, targets, torch.ones_like(real))
        return loss * real.sum() / real.numel(), real.sum()


class LearnsPadding(LanguageModel):
    """Predicts what stands at padding while it is trained, from all of a sequence together."""

    def loss(self, hidden, targets, real):
        counted = torch.ones_like(real) if self.training else real
        return super().loss(hidden, targets, counted)[0], real.sum()

    def likelihoods(self, hidden, targets, real):
        return super().likelihoods(hidden, targets, real)


class AlwaysSmooth(LanguageModel):
    def loss(self, hidden, targets, real):
        training, self.training = self.training, True
        loss = super().loss(hidden, targets, real)
        self.training = training
        return loss


class NeverSmooth(LanguageModel):
    def __init__(self, model):
        super().__init__(model)
        self.label_smoothing = 0.0


class PoolsPadding(Classifier):
    def logits(self, hidden, real):
        return super().logits(hidden, torch.ones_like(real))


class NothingIsNotANumber(LanguageModel):
    def loss(self, hidden, targets, real):
        logits = self.logits(hidden, real)
        mean = cross_entropy(logits[real], targets[real])
        return mean * real.sum(), real.sum()


class SharesTheBatch(Classifier):
    def logits(self, hidden, real):
        scores = super().logits(hidden, real)
        return scores - scores.mean(dim=0, keepdim=True)


class LooksAhead(LanguageModel):
    def logits(self, hidden, real):
        return super().logits(hidden.flip(1).cumsum(dim=1).flip(1), real)


class RedrawsTheEmbedding(LanguageModel):
    def reset_parameters(self):
        nn.init.normal_(self.weight)


class CopiesTheEmbedding(LanguageModel):
    def __init__(self, model):
        super().__init__(model)
        if model.tied is not None:
            self.weight = nn.Parameter(model.tied.detach().clone())


class PenaltyForNumbers(Regressor):
    """Adds what no better prediction can lower."""

    def loss(self, hidden, targets, real):
        loss, count = super().loss(hidden, targets, real)
        return loss + count, count


class MeanOfLabels(MultiLabelClassifier):
    def loss(self, hidden, targets, real):
        loss, count = super().loss(hidden, targets, real)
        return loss / targets.shape[1], count


class MeanLikelihoods(MultiLabelClassifier):
    def likelihoods(self, hidden, targets, real):
        found = super().likelihoods(hidden, targets, real)
        return found._replace(log_probabilities=found.log_probabilities / targets.shape[1])


class CountsLabels(MultiLabelClassifier):
    """Counts every label as a target in one place, and every text in the other."""

    def likelihoods(self, hidden, targets, real):
        found = super().likelihoods(hidden, targets, real)
        return found._replace(targets=found.targets * targets.shape[1])


class RightNumbers(Regressor):
    def likelihoods(self, hidden, targets, real):
        found = super().likelihoods(hidden, targets, real)
        return found._replace(correct=torch.zeros_like(found.targets))


class TwoParts(Pooled):
    """A class and a number: answers, and so targets, of a kind that no built-in part knows."""

    output_types = frozenset({"class and number"})
    check_targets = ((0.0, 1.5), (2.0, -1.0))

    def losses(self, hidden, targets, real):
        logits = self.logits(hidden, real)
        classes = cross_entropy(logits[:, :-1], targets[:, 0].long(), reduction="none")
        return logits, classes, (logits[:, -1] - targets[:, 1]).square()

    def loss(self, hidden, targets, real):
        _, *losses = self.losses(hidden, targets, real)
        return sum(losses).sum(), torch.tensor(len(targets))

    def likelihoods(self, hidden, targets, real):
        logits, *losses = self.losses(hidden, targets, real)
        right = (logits[:, :-1].argmax(dim=-1) == targets[:, 0]).long()
        return Likelihoods(-sum(losses), torch.ones_like(right), right)


class ForgetsThePart(TwoParts):
    def likelihoods(self, hidden, targets, real):
        found = super().likelihoods(hidden, targets, real)
        return found._replace(log_probabilities=-self.losses(hidden, targets, real)[1])


class CountsBothParts(TwoParts):
    def loss(self, hidden, targets, real):
        loss, _ = super().loss(hidden, targets, real)
        return loss, torch.tensor(targets.numel())


MUTANTS = {
    "likelihoods_are_those_of_the_loss": (ForgetsThePart, MeanLikelihoods, CountsLabels, RightNumbers),
    "shapes": (CountsBothParts, LengthFirst, FourAxes, CountsPadding),
    "the_loss_is_cross_entropy": (AlwaysSmooth, NeverSmooth, PenaltyForNumbers, MeanOfLabels),
    "padding_does_not_count": (AveragesOverPadding, LearnsPadding, PoolsPadding),
    "the_loss_adds_up": (Averages,),
    "without_real_targets_there_is_no_loss": (NothingIsNotANumber,),
    "rows_are_independent": (SharesTheBatch, LooksAhead),
    "a_tied_embedding_is_left_alone": (RedrawsTheEmbedding, CopiesTheEmbedding),
}


def test_a_head_for_targets_of_its_own_is_sound():
    found = check(TwoParts)
    assert found.counts["failed"] == 0, str(found)


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.HEAD)
