"""Every check of heads catches a fault that it is there for."""

import torch
from tests.testing.mutants import after, instead, mutant_tests
from torch import nn
from torch.nn.functional import cross_entropy

from plugformer.interfaces import Likelihoods
from plugformer.registry import Kind
from plugformer_plugins.head.language_model import LanguageModel
from plugformer_plugins.head.pooling import Classifier, MultiLabelClassifier, Pooled, Regressor
from plugformer_testing import check


class AveragesOverPadding(LanguageModel):
    """Computes the loss at padding too."""

    def loss(self, hidden, targets, real):
        loss, _ = super().loss(hidden, targets, torch.ones_like(real))
        return loss * real.sum() / real.numel(), real.sum()


class LearnsPadding(LanguageModel):
    """Predicts what stands at padding while it is trained, from all of a sequence together."""

    depends_on = "example"

    def loss(self, hidden, targets, real):
        counted = torch.ones_like(real) if self.training else real
        return super().loss(hidden, targets, counted)[0], real.sum()


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
        mean = cross_entropy(self.logits(hidden, real)[real], targets[real])
        return mean * real.sum(), real.sum()


class LooksAhead(LanguageModel):
    def logits(self, hidden, real):
        return super().logits(hidden.flip(1).cumsum(dim=1).flip(1), real)


class CopiesTheEmbedding(LanguageModel):
    def __init__(self, model):
        super().__init__(model)
        if model.tied is not None:
            self.weight = nn.Parameter(model.tied.detach().clone())


class TwoParts(Pooled):
    """A class and a number: answers, and so targets, of a kind that no built-in part knows."""

    output_types = frozenset({"class and number"})
    probabilities = False
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
        return Likelihoods(sum(losses), torch.ones_like(right), None, right)


class ForgetsThePart(TwoParts):
    def likelihoods(self, hidden, targets, real):
        found = super().likelihoods(hidden, targets, real)
        return found._replace(losses=self.losses(hidden, targets, real)[1])


def losing(name, base, change):
    """Returns a head whose losses and counts are changed."""
    return after(name, base, loss=lambda self, found, _, targets, real: change(*found, targets, real))


def likely(name, base, **parts):
    """Returns a head of whose likelihoods parts are changed."""

    def likelihoods(self, found, hidden, targets, real):
        return found._replace(**{part: change(found, targets) for part, change in parts.items()})

    return after(name, base, likelihoods=likelihoods)


MUTANTS = {
    "likelihoods_are_those_of_the_loss": (
        ForgetsThePart,
        likely(
            "Mean",
            MultiLabelClassifier,
            losses=lambda found, targets: found.losses / targets.shape[1],
        ),
        likely(
            "Labels", MultiLabelClassifier, targets=lambda found, targets: found.targets * targets.shape[1]
        ),
        likely("RightNumbers", Regressor, correct=lambda found, targets: torch.zeros_like(found.targets)),
    ),
    "shapes": (
        losing("CountsBoth", TwoParts, lambda loss, _, targets, real: (loss, torch.tensor(targets.numel()))),
        after("LengthFirst", LanguageModel, logits=lambda self, logits, *_: logits.transpose(1, 2)),
        after("FourAxes", LanguageModel, logits=lambda self, logits, *_: logits[..., None]),
        losing("Padding", LanguageModel, lambda loss, _, targets, real: (loss, torch.tensor(real.numel()))),
    ),
    "the_loss_is_cross_entropy": (
        AlwaysSmooth,
        NeverSmooth,
        losing("Penalty", Regressor, lambda loss, count, *_: (loss + count, count)),
        losing("Mean", MultiLabelClassifier, lambda loss, count, y, _: (loss / y.shape[1], count)),
    ),
    "padding_does_not_count": (AveragesOverPadding, LearnsPadding, PoolsPadding),
    "the_loss_adds_up": (
        losing("Averages", LanguageModel, lambda loss, count, *_: (loss / count.clamp(min=1), count)),
    ),
    "without_real_targets_there_is_no_loss": (NothingIsNotANumber,),
    "rows_are_independent": (
        after("SharesTheBatch", Classifier, logits=lambda self, logits, *_: logits - logits.mean(dim=0)),
        LooksAhead,
    ),
    "a_tied_embedding_is_left_alone": (
        instead("Redraws", LanguageModel, reset_parameters=lambda self: nn.init.normal_(self.weight)),
        CopiesTheEmbedding,
    ),
}


def test_a_head_for_targets_of_its_own_is_sound():
    found = check(TwoParts)
    assert found.counts["failed"] == 0, str(found)


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.HEAD)
