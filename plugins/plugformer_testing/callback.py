"""The contract of hooks that take part in training, see plugformer.interfaces.training."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from plugformer.callbacks import HookManager
from plugformer.configuration import Task, TrainingSettings
from plugformer.data import EncodedSplit
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.hooks import Run, Update
from plugformer.interfaces import Batch, Callback, Model
from plugformer.model import build
from plugformer.registry import Kind, Registry
from plugformer.runs import TrainedModel
from plugformer.runs.store import join_tensors, split_tensors
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.small import SmallTask
from plugformer_testing.subject import Subject

UPDATES = 8

_UPDATE = Update(
    step=1, epoch=1, loss=1.0, targets=6, tokens=30, token_accuracy=None, learning_rate=0.1, seconds=0.1
)

LONG = 12  # updates after which also every tenth update has happened


class _SmallTraining:
    """The updates of a small classifier with a hook, made as the core makes them."""

    def __init__(self, subject: Subject, device: str = "cpu") -> None:
        self.hook: Callback = subject.create()
        self.manager = HookManager([], lambda _: None, {subject.entry.name: self.hook})
        examples, model = subject.once(
            "examples", lambda: _of_run(subject.run) if subject.run else _classifier(subject.registry)
        )
        self.examples, self.model = examples, copy.deepcopy(model).to(device)
        settings = Task.model_construct(training=TrainingSettings())
        self.run = Run(Path(), settings, self.model, 2 * UPDATES, UPDATES, subject.registry)
        try:
            self.call("model_built")
        except ConfigurationError as error:
            advice = (
                "" if subject.run else ", the small classifier of the checks; --run DIR gives another one"
            )
            pytest.skip(f"it refuses the model{advice}: {error}")
        learning = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        require.that(learning, "it leaves nothing to be trained")
        self.optimizer, self.step = torch.optim.SGD(learning, lr=0.1, momentum=0.9), 0

    def call(self, hook: str, *place: int, **arguments: Any) -> Any:
        """Calls a hook; `place` (update and batch) seeds its generator as in training."""
        if place:
            self.manager.seed(1, hook, *place)
        return self.manager.ask(hook, run=self.run, **arguments)

    def batch(self, number: int) -> Batch:
        first = 2 * self.step + number
        return self.examples.batch([(first + row) % len(self.examples) for row in range(3)])

    def updated(self, updates: int = 1) -> "_SmallTraining":
        """Makes updates on two batches each, with finite losses."""
        for _ in range(updates):
            self.step += 1
            batches = [self.changed(self.batch(number), number) for number in (1, 2)]
            targets = sum(self.model.count(batch) for batch in batches)
            for number, batch in enumerate(batches, start=1):
                loss = self.loss(batch, number)
                require.finite(loss.total, f"the loss of update {self.step}")
                (loss.total / targets + loss.auxiliary / 2).backward()
            self.call("optimizer_step", self.step, model=self.model, optimizer=self.optimizer, step=self.step)
            self.optimizer.zero_grad()
            self.manager.call("step_ended", run=self.run, update=replace(_UPDATE, step=self.step))
        return self

    def changed(self, batch: Batch, number: int = 1) -> Any:
        return self.call("training_batch", self.step, number, batch=batch, step=self.step)

    def loss(self, batch: Batch, number: int = 1) -> Any:
        given = {"model": self.model, "batch": batch, "step": self.step}
        return self.call("training_loss", self.step, number, **given)

    def values(self) -> dict[str, Tensor]:
        trained = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        evaluated = self.call("evaluated_parameters", model=self.model) or {}
        return trained | {f"evaluated {name}": value.clone() for name, value in evaluated.items()}


def _classifier(registry: Registry) -> tuple[EncodedSplit, Model]:
    task = SmallTask(registry.create(Kind.TASK_TYPE, "plugformer:classification"), registry=registry)
    architecture = registry.create(Kind.ARCHITECTURE, "plugformer:encoder-only")
    return task.split(architecture=architecture), task.model(architecture).float().train()


def _of_run(trained: TrainedModel) -> tuple[EncodedSplit, Model]:
    """Returns validation examples of a run, and a new model of the same sizes without dropout."""
    spec = replace(trained.model.spec, dropout=0.0, attention_dropout=0.0)
    return trained.read("validation")[0], build(spec, trained.model.sizes).train()


@contract_check()
def takes_part(subject: Subject) -> None:
    """It implements at least one of the hooks, all of them marked and with arguments that exist."""
    try:
        HookManager([], lambda _: None, {subject.entry.name: subject.create()})
    except RegistryError as error:
        pytest.fail(str(error), pytrace=False)


@contract_check(given=_SmallTraining)
def a_model_trains_with_it(training: _SmallTraining) -> None:
    """Losses are finite, and updates move the parameters."""
    before, after = training.values(), training.updated(UPDATES).values()
    require.that(any(not torch.equal(before[name], after[name]) for name in before), "no parameter moves")
    for name, value in after.items():
        require.finite(value, f"after {UPDATES} updates {name}")


@contract_check()
def a_model_without_values_will_do(subject: Subject) -> None:
    """`model_built` works if the model has shapes only, as in validation."""
    _SmallTraining(subject, device="meta")


@contract_check(cases=(0, 1, 3))
def resuming_changes_nothing(subject: Subject, updates: int) -> None:
    """With its state saved and loaded, training continues exactly as if it had not stopped."""
    training, resumed = _SmallTraining(subject).updated(updates), _SmallTraining(subject)
    record, tensors = split_tensors(training.hook.state_dict(), "hook")
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    resumed.hook.load_state_dict(join_tensors(json.loads(json.dumps(record)), tensors))
    resumed.model.load_state_dict(training.model.state_dict())
    resumed.optimizer.load_state_dict(copy.deepcopy(training.optimizer.state_dict()))
    resumed.step = training.step
    found, expected = resumed.updated(LONG).values(), training.updated(LONG).values()
    require.same(found, expected, "after its state was saved and loaded")


@contract_check()
def random_numbers_come_from_its_generator(subject: Subject) -> None:
    """Trainings repeat, and the generators of the whole process, which dropout draws from, are not used."""
    ended: list[dict[str, Tensor]] = []
    for _ in range(2):
        with require.undrawn():
            ended.append(_SmallTraining(subject).updated(2).values())
    require.same(ended[1], ended[0], "in a second training")


@contract_check(given=_SmallTraining)
def batches_are_replaced_and_not_changed(training: _SmallTraining) -> None:
    """It does not change a batch in place, but returns a new one."""
    batch, again = training.batch(1), training.batch(1)
    changed = training.changed(batch)
    same = torch.equal(batch.source.ids, again.source.ids) and torch.equal(batch.targets, again.targets)
    require.that(same and batch.rows == again.rows, "it changes the batch in place; return another one")
    require.that(training.model.count(changed) > 0, "it returns a batch without targets")


@contract_check(given=_SmallTraining)
def losses_add_up(training: _SmallTraining) -> None:
    """The loss of a batch is the sum of those of its examples, so that processes can share a batch."""
    whole, *parts = (training.loss(training.examples.batch(rows)).total for rows in ([0, 1], [0], [1]))
    require.close(torch.stack(parts).sum(), whole, "the losses of two examples do not add up", tolerance=1e-4)
