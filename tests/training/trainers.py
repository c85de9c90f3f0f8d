"""Trainers of small models, on batches that are made by hand."""

from types import SimpleNamespace

import pytest
import torch
from tests.batches import split_of

from plugformer.callbacks import HookManager
from plugformer.distributed import SINGLE_PROCESS
from plugformer.experiment import Experiment
from plugformer.hooks import EvaluationResult, Run
from plugformer.model import Sizes, build
from plugformer.registry import Kind
from plugformer.runs.checkpoint import TrainingState
from plugformer.training.strategy import TrainingStrategy
from plugformer.training.stream import PreparedBatches
from plugformer.training.trainer import Trainer


def make_trainer(
    registry,
    folder,
    task,
    batches,
    *,
    steps,
    outputs=12,
    descent=False,
    values=(),
    order=None,
    callbacks=(),
    processes=SINGLE_PROCESS,
):
    """Returns a trainer that goes through batches in order.

    Args:
        registry: What is installed.
        folder: The run directory.
        task: The settings.
        batches: Those of an epoch.
        steps: Number of updates.
        outputs: Size of the target vocabulary.
        descent: Train in float64 by plain gradient descent at rate 1, and not by the task's optimizer.
        values: The losses of evaluations in turn, and their `exact_match`.
        order: Returns the batches of an epoch, by its number.
        callbacks: Told about the training.
        processes: Those that train.
    """
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    model = build(Experiment.of(task, registry).spec, Sizes(12, outputs))
    block, schedule = task.training.optimizer, task.training.schedule
    if descent:
        optimizer = torch.optim.SGD(model.double().parameters(), lr=1.0)
    else:
        built = registry.create(Kind.OPTIMIZER, block.name, **block.options)
        optimizer = built.build(model.named_parameters())
    evaluations = iter(values)

    def evaluate(step):
        value = next(evaluations, 0.0)
        return EvaluationResult(step, value, 0.0, {"exact_match": value}, [], best=False, seconds=0.0)

    return Trainer(
        run=Run(folder, task, model, steps, epoch_steps=1000),
        strategy=TrainingStrategy(model, task.training),
        state=TrainingState(model, optimizer),
        schedules={"": registry.create(Kind.SCHEDULE, schedule.name, **schedule.options)},
        stream=PreparedBatches(
            split_of(batches),
            order or (lambda _: [[index] for index in range(len(batches))]),
            task.training,
            processes,
        ),
        validation=SimpleNamespace(evaluate=evaluate, samples=list),
        higher_is_better=False,
        hooks=HookManager(callbacks, pytest.fail),
        processes=processes,
        notify=str,
    )
