"""Every check of metrics, schedules, optimizers and hooks catches a fault that it is there for."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.testing.mutants import after, assert_caught, instead, mutant_tests

import plugformer
from plugformer.errors import ConfigurationError
from plugformer.hooks import hookimpl
from plugformer.interfaces import Hook, Optimizer, OutputMetric, Schedule
from plugformer.registry import Kind
from plugformer_plugins.metric.accuracy import ExactMatch, MirroredRepeats, SameLength, TagAccuracy
from plugformer_plugins.metric.likelihood import Perplexity
from plugformer_plugins.metric.regression import MeanSquaredError
from plugformer_testing import Status, check


class ComparesToTheFirst(ExactMatch):
    """Counts repetitions of the batch's first prediction."""

    def statistics(self, predictions, references):
        repeated = [[predictions[0] == prediction] for prediction in predictions]
        return super().statistics(predictions, references) + repeated


class FirstReferenceOnly(ExactMatch):
    def statistics(self, predictions, references):
        return super().statistics(predictions, [answers[:1] for answers in references])


class DrawnInterval(OutputMetric):
    """A bootstrap without a seed."""

    def statistics(self, predictions, references):
        return np.array([[float(p in r)] for p, r in zip(predictions, references, strict=True)])

    def aggregate(self, statistics):
        return float(statistics.mean())

    def interval(self, statistics, level=0.95):
        middle, width = self.aggregate(statistics), np.random.random()
        return middle - width, middle + width


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


def weighed_by_place(self, statistics):
    return float(np.average(statistics[:, 0], weights=np.arange(1, len(statistics) + 1)))


def curve(name, factor):
    return instead(name, Schedule, factor=lambda self, step, *, steps, width: factor(step, steps, width))


class Remembers(Schedule):
    last = 1.0

    def factor(self, step, *, steps, width):
        self.last = self.last * 0.9
        return self.last


class KeepsTheFirst(Schedule):
    """Works out what it needs once."""

    length = 0

    def factor(self, step, *, steps, width):
        self.length = self.length or steps
        return 1 / (1 + step / self.length)


class Parameters(Optimizer):
    def __init__(self, *, lr: float = 0.01) -> None:
        self.lr = lr

    def build(self, parameters):
        return self.made([parameter for _, parameter in parameters])


def making(name, made):
    return instead(name, Parameters, made=made)


class ReadsTwice(Parameters):
    """Goes through the parameters again, which an iterator does not allow."""

    def build(self, parameters):
        matrices = [p for _, p in parameters if p.dim() > 1]
        rest = [p for _, p in parameters if p.dim() <= 1]
        return torch.optim.SGD(matrices + rest, lr=self.lr)


def without_vectors(self, parameters):
    return torch.optim.SGD([{"params": [p], "lr": 0.0 if p.dim() == 1 else self.lr} for p in parameters])


def thawed(self, parameters):
    return torch.optim.SGD([parameter.requires_grad_(True) for parameter in parameters], lr=self.lr)


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


def updating(name, update):
    return making(name, lambda self, parameters: CustomSGD(parameters, update, lr=self.lr))


def counted(sgd, parameter, lr):
    parameter.sub_(parameter.grad, alpha=lr * sgd.steps)


class SavesElsewhere(CustomSGD):
    """Keeps a number of its own, which it saves beside its state."""

    def state_dict(self):
        return super().state_dict() | {"steps": self.steps}

    def load_state_dict(self, state):
        self.steps = state["steps"]
        super().load_state_dict({key: value for key, value in state.items() if key != "steps"})


class FirstRate(CustomSGD):
    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] = self.param_groups[0]["lr"]
        super().step()


def first_rate(self, parameters):
    groups = [{"params": [parameter]} for parameter in parameters]
    return FirstRate(groups, lambda _, parameter, lr: parameter.sub_(parameter.grad, alpha=lr), lr=self.lr)


def descend_and_name(optimizer, parameter, lr):
    parameter.sub_(parameter.grad, alpha=lr)
    optimizer.state[parameter]["name"] = "weight"


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


class LooksAtValues(Hook):
    @hookimpl
    def model_built(self, run):
        self.largest = max(parameter.max().item() for parameter in run.model.parameters())


class ChangesLosses(Hook):
    """Counts updates, which its state does not tell."""

    updates = 0

    @hookimpl(wrapper=True)
    def training_loss(self):
        loss = yield
        return loss._replace(total=self.changed(loss))

    @hookimpl(wrapper=True)
    def optimizer_step(self):
        self.updates += 1
        return (yield)


def losing(name, changed):
    return instead(name, ChangesLosses, changed=changed)


class KeepsASet(Hook):
    @hookimpl
    def training_batch(self):
        pass

    def state_dict(self):
        return {"names": {"a"}}


class ChangesInPlace(Hook):
    @hookimpl
    def training_batch(self, batch):
        batch.source.ids[:, 0] = 1
        return batch


class EvaluatesStrangers(Hook):
    @hookimpl
    def evaluated_parameters(self, model):
        return {"module.head.output.weight": model.head.output.weight.detach()}


class ChangesWhatIsTrained(Hook):
    @hookimpl
    def evaluated_parameters(self, model):
        with torch.no_grad():
            model.head.output.weight.zero_()


RAGGED = {"title": "hits", "columns": ["right", "wrong"], "rows": {"right": [1]}}

MUTANTS = {
    "statistics_are_numbers": (
        after("OneDimension", ExactMatch, statistics=lambda self, found, *_: found[:, 0]),
        TakesMatchesAway,
    ),
    "an_example_counts_by_itself": (
        ComparesToTheFirst,
        instead("WeighsByPlace", ExactMatch, aggregate=weighed_by_place),
        instead("LastExample", Perplexity, aggregate=lambda self, statistics: float(statistics[-1, 0])),
    ),
    "the_aggregate_is_one_number": (
        instead("NoNumber", ExactMatch, aggregate=lambda self, statistics: statistics.mean(axis=0)),
        SortsInPlace,
        CountsElsewhere,
    ),
    "the_interval_holds_the_value": (
        after("Shifted", ExactMatch, interval=lambda self, found, *_: tuple(end + 1 for end in found)),
        DrawnInterval,
    ),
    "right_predictions_score_best": (
        instead("Backwards", ExactMatch, higher_is_better=False),
        after("OtherLength", SameLength, hit=lambda self, hit, *_: not hit),
        instead("PerplexityUpwards", Perplexity, higher_is_better=True),
    ),
    "any_joint_reference_counts": (FirstReferenceOnly,),
    "reports_can_show_what_stands_beside_the_score": (
        instead("TwoLines", ExactMatch, signature=lambda self, references: "case:mixed\ntok:none"),
        instead("Ragged", ExactMatch, table=lambda *_: RAGGED),
        instead("RaggedToo", MirroredRepeats, table=lambda *_: RAGGED),
    ),
    "factors_are_numbers": (
        curve("DividesByZero", lambda step, steps, width: (step - 1) / (steps - 1)),
        curve("Negative", lambda step, steps, width: 1 - 2 * step / steps),
        curve("WideOnly", lambda step, steps, width: 1 / math.log(width) if width > 1 else math.inf),
    ),
    "only_the_last_update_may_stand_still": (
        curve("StartsAtZero", lambda step, steps, width: (step - 1) / steps),
    ),
    "factors_depend_on_the_arguments_alone": (Remembers, KeepsTheFirst),
    "builds_a_torch_optimizer": (ReadsTwice,),
    "every_parameter_is_updated": (
        making("Ascends", lambda self, parameters: torch.optim.SGD(parameters, lr=self.lr, maximize=True)),
        making("LeavesVectors", without_vectors),
    ),
    "frozen_parameters_stay": (making("Thaws", thawed),),
    "the_schedule_moves_the_learning_rate": (
        making("OwnRate", lambda self, parameters: torch.optim.SGD(parameters, lr=0.5)),
        making("FirstRate", first_rate),
        updating("IgnoresTheSchedule", lambda _, parameter, lr: parameter.sub_(parameter.grad, alpha=0.01)),
        updating(
            "DecaysAnyway", lambda _, parameter, lr: parameter.sub_(parameter.grad, alpha=lr).mul_(0.99)
        ),
    ),
    "it_may_move_a_part_of_a_model": (
        making("SavesElsewhere", lambda self, parameters: SavesElsewhere(parameters, counted, lr=self.lr)),
    ),
    "resuming_changes_nothing": (
        updating("Forgets", lambda sgd, parameter, lr: parameter.sub_(parameter.grad, alpha=lr * sgd.steps)),
        updating(  # every tenth step is longer
            "ForgetsThePeriod",
            lambda sgd, parameter, lr: parameter.sub_(parameter.grad, alpha=lr * (1 + (sgd.steps % 10 == 0))),
        ),
        updating("KeepsText", descend_and_name),
        updating(
            "Jitters", lambda _, parameter, lr: parameter.sub_(torch.rand(()) * parameter.grad, alpha=lr)
        ),
        losing("Counts", lambda self, loss: loss.total * (1 + self.updates)),
        losing("CountsToTen", lambda self, loss: loss.total * (1 + (self.updates % 10 == 9))),
        KeepsASet,
    ),
    "takes_part": (LooksLikeOne, MisspeltArgument),
    "a_model_trains_with_it": (Stops, losing("Explodes", lambda self, loss: loss.total / 0)),
    "a_model_without_values_will_do": (LooksAtValues,),
    "random_numbers_come_from_its_generator": (
        losing("DrawsFromTheProcess", lambda self, loss: loss.total * torch.rand(())),
    ),
    "batches_are_replaced_and_not_changed": (ChangesInPlace,),
    "losses_add_up": (losing("Averages", lambda self, loss: loss.total / loss.targets),),
    "evaluated_parameters_fit": (EvaluatesStrangers, ChangesWhatIsTrained),
}


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS,
    *(Kind.METRIC, Kind.SCHEDULE, Kind.OPTIMIZER, Kind.HOOK),
    raising=("DividesByZero", "KeepsASet", "LooksAtValues"),
)

ANSWERS = [
    instead("SquaresUpwards", MeanSquaredError, higher_is_better=True),
    after("WrongTags", TagAccuracy, aggregate=lambda self, value, _: 1 - value),
]


@pytest.mark.parametrize("metric", ANSWERS)
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


class NeedsItsTeachersSizes(Hook):
    """Refuses a model of other sizes than its teacher has."""

    def __init__(self, *, teacher: Path) -> None:
        self.teacher = plugformer.load(teacher, device="cpu").model

    @hookimpl
    def model_built(self, run):
        if run.model.sizes != self.teacher.sizes:
            raise ConfigurationError(f"the teacher has {self.teacher.sizes}")

    @hookimpl
    def training_loss(self, model, batch):
        loss = model.forward(batch)
        with torch.no_grad():
            theirs = self.teacher.eval().forward(batch)
        return loss._replace(total=loss.total + 0.1 * theirs.total)


def test_a_hook_that_fits_a_run_alone_is_checked_with_that_run(trained):
    options = {"teacher": str(trained.directory)}
    alone = check(NeedsItsTeachersSizes, options=options, only="a_model_trains_with_it").outcomes[0]
    assert alone.status is Status.SKIPPED
    assert "--run" in alone.message
    report = check(NeedsItsTeachersSizes, options=options, run=trained.directory)
    assert report.summary() == "8 of 8 checks passed", str(report)
    with pytest.raises(ConfigurationError, match="schedule/constant"):
        check("schedule/constant", run=trained.directory)
