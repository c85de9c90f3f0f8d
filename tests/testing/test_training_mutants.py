"""Every check of metrics, schedules, optimizers and hooks catches a fault that it is there for."""

import math

import numpy as np
import pytest
import torch
from tests.testing.mutants import assert_caught, mutant_tests

from plugformer.hooks import hookimpl
from plugformer.interfaces import Hook, Optimizer, OutputMetric, Schedule, Table
from plugformer.registry import Kind
from plugformer_plugins.metric.accuracy import ExactMatch, MirroredRepeats, SameLength, TagAccuracy
from plugformer_plugins.metric.likelihood import Perplexity
from plugformer_plugins.metric.regression import MeanSquaredError
from plugformer_testing import Status, check


class OneDimension(ExactMatch):
    def statistics(self, predictions, references):
        return super().statistics(predictions, references)[:, 0]


class ComparesToTheFirst(ExactMatch):
    """Counts repetitions of the batch's first prediction."""

    def statistics(self, predictions, references):
        return super().statistics(predictions, references) + [
            [predictions[0] == prediction] for prediction in predictions
        ]


class NoNumber(ExactMatch):
    def aggregate(self, statistics):
        return statistics.mean(axis=0)


class WeighsByPlace(ExactMatch):
    def aggregate(self, statistics):
        return float(np.average(statistics[:, 0], weights=np.arange(1, len(statistics) + 1)))


class ShiftedInterval(ExactMatch):
    def interval(self, statistics, level=0.95):
        low, high = super().interval(statistics, level)
        return low + 1, high + 1


class DrawnInterval(OutputMetric):
    """A bootstrap without a seed."""

    def statistics(self, predictions, references):
        return np.array([[float(p in r)] for p, r in zip(predictions, references, strict=True)])

    def aggregate(self, statistics):
        return float(statistics.mean())

    def interval(self, statistics, level=0.95):
        middle, width = self.aggregate(statistics), np.random.random()
        return middle - width, middle + width


class Backwards(ExactMatch):
    higher_is_better = False


class FirstReferenceOnly(ExactMatch):
    def statistics(self, predictions, references):
        return super().statistics(predictions, [answers[:1] for answers in references])


class TwoLines(ExactMatch):
    def signature(self, references):
        return "case:mixed\ntok:none"


class RaggedTable(ExactMatch):
    def table(self, predictions, references):
        return Table("hits", ["right", "wrong"], {"right": [1]})


class OtherLength(SameLength):
    def hit(self, source, prediction):
        return not super().hit(source, prediction)


class RaggedSourceTable(MirroredRepeats):
    def table(self, sources, predictions, references):
        return Table("mirrored", ["yes", "no"], {"with a repeat": [len(sources)]})


class PerplexityUpwards(Perplexity):
    higher_is_better = True


class LastExample(Perplexity):
    def aggregate(self, statistics):
        return float(statistics[-1, 0])


class TakesMatchesAway(TagAccuracy):
    """Looks for each tag of a reference in what is left of the prediction."""

    def statistics(self, predictions, references):
        rows = super().statistics(predictions, references)
        for prediction, (reference, *_) in zip(predictions, references, strict=True):
            prediction[:] = [tag for tag in prediction if tag not in reference]
        return rows


class SortsInPlace(ExactMatch):
    def aggregate(self, statistics):
        statistics.sort(axis=0)
        return float(statistics.mean())


class CountsElsewhere(ExactMatch):
    """Knows the number of examples from the statistics that it has made itself."""

    count = 1

    def statistics(self, predictions, references):
        self.count = len(predictions)
        return super().statistics(predictions, references)

    def aggregate(self, statistics):
        return float(statistics.sum() / self.count)


class Curve(Schedule):
    def factor(self, step, *, steps, width):
        return 1.0


class DividesByZero(Curve):
    def factor(self, step, *, steps, width):
        return (step - 1) / (steps - 1)


class Negative(Curve):
    def factor(self, step, *, steps, width):
        return 1 - 2 * step / steps


class StartsAtZero(Curve):
    def factor(self, step, *, steps, width):
        return (step - 1) / steps


class Remembers(Curve):
    last = 1.0

    def factor(self, step, *, steps, width):
        self.last = self.last * 0.9
        return self.last


class KeepsTheFirst(Curve):
    """Works out what it needs once."""

    length = 0

    def factor(self, step, *, steps, width):
        self.length = self.length or steps
        return 1 / (1 + step / self.length)


class WideOnly(Curve):
    def factor(self, step, *, steps, width):
        return 1 / math.log(width) if width > 1 else math.inf


class Parameters(Optimizer):
    def __init__(self, *, lr: float = 0.01) -> None:
        self.lr = lr

    def build(self, parameters):
        return torch.optim.SGD([parameter for _, parameter in parameters], lr=self.lr)


class ReadsTwice(Parameters):
    """Goes through the parameters again, which an iterator does not allow."""

    def build(self, parameters):
        matrices = [p for _, p in parameters if p.dim() > 1]
        rest = [p for _, p in parameters if p.dim() <= 1]
        return torch.optim.SGD(matrices + rest, lr=self.lr)


class Ascends(Parameters):
    def build(self, parameters):
        return torch.optim.SGD([p for _, p in parameters], lr=self.lr, maximize=True)


class LeavesVectors(Parameters):
    def build(self, parameters):
        return torch.optim.SGD(
            [{"params": [p], "lr": 0.0 if p.dim() == 1 else self.lr} for _, p in parameters]
        )


class Thaws(Parameters):
    def build(self, parameters):
        kept = [p for _, p in parameters]
        for parameter in kept:
            parameter.requires_grad_(True)
        return torch.optim.SGD(kept, lr=self.lr)


class OwnRate(Parameters):
    def build(self, parameters):
        return torch.optim.SGD([p for _, p in parameters], lr=0.5)


class CustomSGD(torch.optim.SGD):
    """SGD that calls `update(optimizer, parameter, lr)` for each parameter, and counts its steps."""

    steps = 0

    def __init__(self, parameters, update, *, lr):
        super().__init__(parameters, lr=lr)
        self.update = update

    @torch.no_grad()
    def step(self, closure=None):
        self.steps += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(self, parameter, group["lr"])


class Custom(Parameters):
    def build(self, parameters):
        return CustomSGD([p for _, p in parameters], self.update, lr=self.lr)


class IgnoresTheSchedule(Custom):
    def update(self, optimizer, parameter, lr):
        parameter.sub_(parameter.grad, alpha=self.lr)


class DecaysWithoutRate(Custom):
    def update(self, optimizer, parameter, lr):
        parameter.sub_(parameter.grad, alpha=lr).mul_(0.99)


class ForgetsThePeriod(Custom):
    """Every tenth step is longer, by a count that is not in its state."""

    def update(self, optimizer, parameter, lr):
        parameter.sub_(parameter.grad, alpha=lr * (2 if optimizer.steps % 10 == 0 else 1))


class Forgets(Custom):
    """Steps grow by a number that is not in its state."""

    def update(self, optimizer, parameter, lr):
        parameter.sub_(parameter.grad, alpha=lr * optimizer.steps)


class KeepsText(Custom):
    def update(self, optimizer, parameter, lr):
        parameter.sub_(parameter.grad, alpha=lr)
        optimizer.state[parameter]["name"] = "weight"


class Jitters(Custom):
    def update(self, optimizer, parameter, lr):
        parameter.sub_(parameter.grad + torch.randn_like(parameter), alpha=lr)


class LooksLikeOne(Hook):
    def optimizer_step(self):
        """Without the mark nobody calls it."""


class MisspeltArgument(Hook):
    @hookimpl
    def training_batch(self, batches):
        return batches


class Stops(Hook):
    @hookimpl
    def optimizer_step(self):
        return True


class Explodes(Hook):
    @hookimpl(wrapper=True)
    def training_loss(self):
        loss = yield
        return loss._replace(total=loss.total / 0)


class LooksAtValues(Hook):
    @hookimpl
    def model_built(self, run):
        self.largest = max(parameter.max().item() for parameter in run.model.parameters())


class Counts(Hook):
    """Does otherwise after the first update, which its state does not tell."""

    updates = 0

    @hookimpl(wrapper=True)
    def training_loss(self):
        loss = yield
        return loss._replace(total=loss.total * (1 + self.updates))

    @hookimpl(wrapper=True)
    def optimizer_step(self):
        self.updates += 1
        return (yield)


class CountsToTen(Counts):
    """Does something else at every tenth update, which its state does not tell."""

    @hookimpl(wrapper=True)
    def training_loss(self):
        loss = yield
        return loss._replace(total=loss.total * (1 + (self.updates % 10 == 9)))


class KeepsASet(Hook):
    @hookimpl
    def training_batch(self):
        pass

    def state_dict(self):
        return {"names": {"a"}}


class DrawsFromTheProcess(Hook):
    @hookimpl(wrapper=True)
    def training_loss(self):
        loss = yield
        return loss._replace(total=loss.total * torch.rand(()))


class ChangesInPlace(Hook):
    @hookimpl
    def training_batch(self, batch):
        batch.source.ids[:, 0] = 1
        return batch


class Averages(Hook):
    @hookimpl(wrapper=True)
    def training_loss(self):
        loss = yield
        return loss._replace(total=loss.total / loss.targets)


class EvaluatesStrangers(Hook):
    @hookimpl
    def evaluated_parameters(self, model):
        return {"module.head.output.weight": model.head.output.weight.detach()}


class ChangesWhatIsTrained(Hook):
    @hookimpl
    def evaluated_parameters(self, model):
        with torch.no_grad():
            model.head.output.weight.zero_()


MUTANTS = {
    "statistics_are_numbers": (OneDimension, TakesMatchesAway),
    "an_example_counts_by_itself": (ComparesToTheFirst, WeighsByPlace, LastExample),
    "the_aggregate_is_one_number": (NoNumber, SortsInPlace, CountsElsewhere),
    "the_interval_holds_the_value": (ShiftedInterval, DrawnInterval),
    "right_predictions_score_best": (Backwards, OtherLength, PerplexityUpwards),
    "any_joint_reference_counts": (FirstReferenceOnly,),
    "reports_can_show_what_stands_beside_the_score": (TwoLines, RaggedTable, RaggedSourceTable),
    "factors_are_numbers": (DividesByZero, Negative, WideOnly),
    "only_the_last_update_may_stand_still": (StartsAtZero,),
    "factors_depend_on_the_arguments_alone": (Remembers, KeepsTheFirst),
    "builds_a_torch_optimizer": (ReadsTwice,),
    "every_parameter_is_updated": (Ascends, LeavesVectors),
    "frozen_parameters_stay": (Thaws,),
    "the_schedule_moves_the_learning_rate": (OwnRate, IgnoresTheSchedule, DecaysWithoutRate),
    "resuming_changes_nothing": (
        ForgetsThePeriod,
        Forgets,
        KeepsText,
        Jitters,
        Counts,
        CountsToTen,
        KeepsASet,
    ),
    "takes_part": (LooksLikeOne, MisspeltArgument),
    "a_model_trains_with_it": (Stops, Explodes),
    "a_model_without_values_will_do": (LooksAtValues,),
    "random_numbers_come_from_its_generator": (DrawsFromTheProcess,),
    "batches_are_replaced_and_not_changed": (ChangesInPlace,),
    "losses_add_up": (Averages,),
    "evaluated_parameters_fit": (EvaluatesStrangers, ChangesWhatIsTrained),
}


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS,
    Kind.METRIC,
    Kind.SCHEDULE,
    Kind.OPTIMIZER,
    Kind.HOOK,
    raising=(
        DividesByZero,
        LooksAtValues,
        MisspeltArgument,
    ),
)


class SquaresUpwards(MeanSquaredError):  # noqa: N818 (a metric)
    higher_is_better = True


class WrongTags(TagAccuracy):
    def aggregate(self, statistics):
        return 1 - super().aggregate(statistics)


@pytest.mark.parametrize("metric", [SquaresUpwards, WrongTags])
def test_metrics_are_tried_on_answers_of_their_kind(metric):
    assert check(metric.__base__)
    assert_caught(metric, "right_predictions_score_best")


class SameTags(ExactMatch):
    """Of answers with a structure: sentences, which have no tags, are all alike to it."""

    check_examples = (("O B-PER I-PER", "O O O"), ("B-LOC", "O"))

    def statistics(self, predictions, references):
        answers = [[tags(answer) for answer in right] for right in references]
        return super().statistics([tags(prediction) for prediction in predictions], answers)


def tags(text):
    return " ".join(word for word in text.split() if word[:2] in ("B-", "I-"))


def test_a_metric_is_tried_on_examples_of_its_own(monkeypatch):
    assert check(SameTags).passed
    monkeypatch.setattr(SameTags, "check_examples", ())
    failed = [outcome.check for outcome in check(SameTags).of(Status.FAILED)]
    assert failed == ["right_predictions_score_best"]
