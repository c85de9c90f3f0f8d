"""Every check of metrics, schedules, optimizers and hooks catches a fault that it is there for."""

from pathlib import Path

import pytest
import torch
from tests.testing.mutants import after, fault_test, instead
from tests.testing.outcomes import failure, unsound

import plugformer
from plugformer.errors import ConfigurationError
from plugformer.hooks import hookimpl
from plugformer.interfaces import Callback, Optimizer, Schedule
from plugformer.registry import Kind
from plugformer_plugins.metric.accuracy import ExactMatch
from plugformer_plugins.metric.likelihood import Perplexity


class ComparesToTheFirst(ExactMatch):
    """Counts repetitions of the batch's first prediction."""

    def statistics(self, predictions, references):
        repeated = [[predictions[0] == prediction] for prediction in predictions]
        return super().statistics(predictions, references) + repeated


class FirstReferenceOnly(ExactMatch):
    def statistics(self, predictions, references):
        return super().statistics(predictions, [answers[:1] for answers in references])


def curve(name, factor):
    return instead(name, Schedule, factor=lambda self, step, *, steps, width: factor(step, steps, width))


class Remembers(Schedule):
    last = 1.0

    def factor(self, step, *, steps, width):
        self.last = self.last * 0.9
        return self.last


class Parameters(Optimizer):
    def __init__(self, *, lr: float = 0.01) -> None:
        self.lr = lr

    def build(self, parameters):
        return self.made([parameter for _, parameter in parameters])


def making(name, made):
    return instead(name, Parameters, made=made)


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
    """Keeps the number of steps, which its state does not have."""
    parameter.sub_(parameter.grad, alpha=lr * sgd.steps)


class LooksLikeOne(Callback):
    def optimizer_step(self):
        """Without the mark nobody calls it."""


class Stops(Callback):
    @hookimpl
    def optimizer_step(self):
        return True


class LooksAtValues(Callback):
    @hookimpl
    def model_built(self, run):
        self.largest = max(parameter.max().item() for parameter in run.model.parameters())


class ChangesLosses(Callback):
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


class ChangesInPlace(Callback):
    @hookimpl
    def training_batch(self, batch):
        batch.source.ids[:, 0] = 1
        return batch


METRICS = {
    "statistics_are_numbers": after(
        "OneDimension", ExactMatch, statistics=lambda self, found, *_: found[:, 0]
    ),
    "an_example_counts_by_itself": ComparesToTheFirst,
    "the_aggregate_is_one_number": instead(
        "NoNumber", ExactMatch, aggregate=lambda self, statistics: statistics.mean(axis=0)
    ),
    "the_interval_holds_the_value": after(
        "Shifted", ExactMatch, interval=lambda self, found, *_: tuple(end + 1 for end in found)
    ),
    "right_predictions_score_best": instead("PerplexityUpwards", Perplexity, higher_is_better=True),
    "any_joint_reference_counts": FirstReferenceOnly,
}
SCHEDULES = {
    "factors_are_numbers": curve("Negative", lambda step, steps, width: 1 - 2 * step / steps),
    "only_the_last_update_may_stand_still": curve(
        "StartsAtZero", lambda step, steps, width: (step - 1) / steps
    ),
    "factors_depend_on_the_arguments_alone": Remembers,
}
OPTIMIZERS = {
    "builds_a_torch_optimizer": making(
        "HoldsMatrices",
        lambda self, parameters: torch.optim.SGD([p for p in parameters if p.dim() > 1], lr=self.lr),
    ),
    "every_parameter_is_updated": making(
        "Ascends", lambda self, parameters: torch.optim.SGD(parameters, lr=self.lr, maximize=True)
    ),
    "frozen_parameters_stay": making("Thaws", thawed),
    "the_schedule_moves_the_learning_rate": updating(
        "IgnoresTheSchedule", lambda _, parameter, lr: parameter.sub_(parameter.grad, alpha=0.01)
    ),
    "resuming_changes_nothing": updating("Forgets", counted),
}
HOOKS = {
    "takes_part": LooksLikeOne,
    "a_model_trains_with_it": Stops,
    "a_model_without_values_will_do": LooksAtValues,
    "resuming_changes_nothing": losing("Counts", lambda self, loss: loss.total * (1 + self.updates)),
    "random_numbers_come_from_its_generator": losing(
        "DrawsFromTheProcess", lambda self, loss: loss.total * torch.rand(())
    ),
    "batches_are_replaced_and_not_changed": ChangesInPlace,
    "losses_add_up": losing("Averages", lambda self, loss: loss.total / loss.targets),
}


test_every_check_of_metrics_catches_a_fault = fault_test(METRICS, Kind.METRIC)
test_every_check_of_schedules_catches_a_fault = fault_test(SCHEDULES, Kind.SCHEDULE)
test_every_check_of_optimizers_catches_a_fault = fault_test(OPTIMIZERS, Kind.OPTIMIZER)
test_every_check_of_hooks_catches_a_fault = fault_test(HOOKS, Kind.CALLBACK, raising=("LooksAtValues",))


class NeedsMatrices(Parameters):
    def build(self, parameters):
        parameters = [parameter for _, parameter in parameters]
        if max(parameter.dim() for parameter in parameters) < 2:
            raise ConfigurationError("vectors cannot be made orthogonal")
        return torch.optim.SGD(parameters, lr=self.lr)


def test_an_optimizer_that_refuses_a_part_of_a_model_is_unsound():
    assert "vectors cannot be" in failure(NeedsMatrices, "builds_a_torch_optimizer")


class AveragesWhatItWatches(Callback):
    """Adds up parameters where it watches, which its state does not tell."""

    def __init__(self):
        self.sums = {}

    @hookimpl
    def step_ended(self, run):
        for name, parameter in run.model.named_parameters():
            self.sums[name] = self.sums.get(name, 0.0) + parameter.detach()

    @hookimpl
    def evaluated_parameters(self):
        return dict(self.sums)


def test_the_state_of_a_hook_that_watches_is_checked():
    assert "after its state was saved" in failure(AveragesWhatItWatches, "resuming_changes_nothing")


class NeedsItsTeachersSizes(Callback):
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
    alone = unsound(NeedsItsTeachersSizes, options=options)
    assert "--run" in alone["a_model_trains_with_it"]
    assert not unsound(NeedsItsTeachersSizes, options=options, run=trained.directory)
    with pytest.raises(ConfigurationError, match="schedule/constant"):
        unsound("schedule/constant", run=trained.directory)


def test_a_metric_of_an_unknown_type_is_told_what_to_define():
    moods = instead("Moods", ExactMatch, accepts=frozenset({"mood"}))
    assert "answers of type mood" in failure(moods, "statistics_are_numbers")
    assert "define `check_examples`" in failure(moods, "statistics_are_numbers")
