"""The contract of hooks that take part: see plugformer.interfaces.hook."""

import copy
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plugformer.configuration import Task
from plugformer.configuration import Training as Settings
from plugformer.errors import RunError
from plugformer.hooks import HOOKS, TRAINING_HOOKS, HookManager, Run
from plugformer.interfaces import Batch, Hook, Loss, Model
from plugformer.registry import Kind, Registry
from plugformer.runs import join_tensors, split_tensors
from plugformer_testing.check import check, fail, require, require_close, require_finite
from plugformer_testing.small_tasks import SmallTask
from plugformer_testing.subject import Subject

UPDATES = 8

LONG = 12
"""Updates in which what happens at every tenth happens."""


class Training:
    """The updates of a small classifier that a hook takes part in, as the core makes them.

    Args:
        subject: The hook's class and options.
        device: Of the model; `meta` has no values.
    """

    def __init__(self, subject: Subject, device: str = "cpu") -> None:
        self.hook: Hook = subject.create()
        self.manager = HookManager([], lambda _: None, {subject.entry.name: self.hook})
        task, model = subject.once("classifier", _classifier)
        self.examples, self.model = task.split(), copy.deepcopy(model).to(device)
        settings = Task.model_construct(training=Settings())
        self.run = Run(Path(), settings, self.model, steps=2 * UPDATES, epoch_steps=UPDATES)
        self.ask("model_built")
        learning = [each for each in self.model.parameters() if each.requires_grad]
        require(bool(learning), "it leaves nothing to be trained")
        self.optimizer = torch.optim.SGD(learning, lr=0.1, momentum=0.9)
        self.step = 0

    def ask(self, hook: str, *place: int, **given: Any) -> Any:
        """Calls a hook; where it may draw, its generator stands where the place begins, as in training."""
        if place:
            self.manager.seed(1, hook, *place)
        return self.manager.ask(hook, run=self.run, **given)

    def batch(self, number: int) -> Batch:
        """Returns one of the batches of an update: three texts and their labels."""
        first = 2 * self.step + number
        return self.examples.batch([(first + row) % len(self.examples) for row in range(3)])

    def update(self) -> Loss:
        """Makes an update on two batches, and returns the loss of the second."""
        self.step += 1
        batches = [self.changed(self.batch(number), number) for number in (1, 2)]
        targets = sum(self.model.count(each) for each in batches)
        for number, batch in enumerate(batches, start=1):
            loss = self.loss(batch, number)
            (loss.total / targets + loss.auxiliary / 2).backward()
        self.ask("optimizer_step", self.step, model=self.model, optimizer=self.optimizer, step=self.step)
        self.optimizer.zero_grad()
        return loss

    def changed(self, batch: Batch, number: int = 1) -> Batch:
        """Returns a batch as the hook has it."""
        changed: Batch = self.ask("training_batch", self.step, number, batch=batch, step=self.step)
        return changed

    def loss(self, batch: Batch, number: int = 1) -> Loss:
        """Returns the loss of a batch as the hook has it."""
        loss: Loss = self.ask("training_loss", self.step, number, model=self.model, batch=batch)
        return loss

    def evaluated(self) -> Mapping[str, Tensor]:
        """Returns the values that the hook wants evaluated."""
        return self.ask("evaluated_parameters", model=self.model) or {}

    def values(self) -> dict[str, Tensor]:
        """Returns the parameters, and beside them what is evaluated."""
        wanted = {f"evaluated {name}": value.clone() for name, value in self.evaluated().items()}
        return self.parameters() | wanted

    def parameters(self) -> dict[str, Tensor]:
        """Returns copies of the parameters."""
        return {name: each.detach().clone() for name, each in self.model.named_parameters()}


def _classifier() -> tuple[SmallTask, Model]:
    registry = Registry.discover()
    task = SmallTask(registry.create(Kind.TASK_TYPE, "plugformer:classification"), registry=registry)
    task.architecture = registry.create(Kind.ARCHITECTURE, "plugformer:encoder-only")
    return task, task.model().float().train()


@check()
def takes_part(subject: Subject) -> None:
    """It implements at least one of the hooks, all of them with arguments that exist."""
    manager = HookManager([], lambda _: None, {subject.entry.name: subject.create()})
    if not any(manager.changes(hook) for hook in (*TRAINING_HOOKS, *HOOKS)):
        fail("it implements none of the hooks: mark its methods with @hookimpl")


@check()
def a_model_trains_with_it(subject: Subject) -> None:
    """Losses are finite, and updates move the parameters."""
    training = Training(subject)
    before = training.values()
    for number in range(1, UPDATES + 1):
        loss = training.update()
        require_finite(loss.total, f"the loss of update {number} is {loss.total.item()}")
    after = training.values()
    require(any(not torch.equal(before[name], after[name]) for name in before), "no parameter moves")
    for name, value in after.items():
        require_finite(value, f"after {UPDATES} updates {name} is not finite")


@check()
def a_model_without_values_will_do(subject: Subject) -> None:
    """`model_built` works where the model has shapes only, as when a task is validated."""
    Training(subject, device="meta")


@check((0, 1, 3))
def resuming_changes_nothing(subject: Subject, updates: int) -> None:
    """With its state written and read, training goes on exactly as if it had not stopped."""
    training, resumed = Training(subject), Training(subject)
    for _ in range(updates):
        training.update()
    try:
        record, tensors = split_tensors(training.hook.state_dict(), "hook")
    except RunError as error:
        fail(str(error))
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    resumed.hook.load_state_dict(join_tensors(json.loads(json.dumps(record)), tensors))
    resumed.model.load_state_dict(training.model.state_dict())
    resumed.optimizer.load_state_dict(copy.deepcopy(training.optimizer.state_dict()))
    resumed.step = training.step
    for _ in range(LONG):
        training.update()
        resumed.update()
    _require_same(training, resumed, "after its state was saved and loaded")


@check()
def random_numbers_come_from_its_generator(subject: Subject) -> None:
    """Trainings repeat, and the generators that dropout and others draw from are left alone."""
    trainings: list[Training] = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        before = _generators()
        trainings.append(training := Training(subject))
        for _ in range(2):
            training.update()
        training.evaluated()
        message = "it draws from a generator of the whole process: draw from self.generator"
        require(_generators() == before, message)
    _require_same(trainings[0], trainings[1], "in a second training")


@check()
def batches_are_replaced_and_not_changed(subject: Subject) -> None:
    """A batch that it is given stays as it is: what it changes is a new one."""
    training = Training(subject)
    batch, again = training.batch(1), training.batch(1)
    changed = training.changed(batch)
    same = torch.equal(batch.source.ids, again.source.ids) and torch.equal(batch.targets, again.targets)
    require(same and batch.rows == again.rows, "it changes the batch in place; return another one")
    require(training.model.count(changed) > 0, "it returns a batch without targets")


@check()
def losses_add_up(subject: Subject) -> None:
    """The loss of a batch is the sum of those of its examples, so that batches can be shared out."""
    training = Training(subject)
    whole, *parts = (training.examples.batch(rows) for rows in ([0, 1], [0], [1]))
    loss, losses = training.loss(whole), [training.loss(each) for each in parts]
    total = torch.stack([each.total for each in losses]).sum()
    message = "the losses of two examples are not that of both together"
    require_close(total, loss.total, message, tolerance=1e-4)


@check()
def evaluated_parameters_fit(subject: Subject) -> None:
    """What it wants evaluated has names and shapes of parameters, and leaves these as they are."""
    training = Training(subject)
    training.update()
    own = training.parameters()
    for name, value in training.evaluated().items():
        require(name in own, f"it wants {name!r} evaluated, which is no parameter: {', '.join(own)}")
        if value.shape != own[name].shape:
            fail(f"its value of {name} has shape {tuple(value.shape)}, expected {tuple(own[name].shape)}")
    for name, value in training.parameters().items():
        require(torch.equal(value, own[name]), f"asked what to evaluate, it changes {name}: return values")


def _generators() -> tuple[object, ...]:
    """Returns the states of the generators of the whole process."""
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())


def _require_same(one: Training, other: Training, when: str) -> None:
    mine, yours = one.values(), other.values()
    require(mine.keys() == yours.keys(), f"{when} it wants other parameters evaluated")
    for name, value in mine.items():
        require_close(yours[name], value, f"{when} {name} is another", tolerance=0.0)
