"""Every built-in part is resumed exactly: in the middle of an epoch, with accumulation and dropout."""

import shutil
from types import SimpleNamespace

import pytest
from tests import batches
from tests.batches import split_of

from plugformer.configuration import resolve
from plugformer.experiment import Experiment
from plugformer.generators import seed_generators
from plugformer.hooks.manager import HookManager
from plugformer.hooks.specification import EvaluationResult, Run
from plugformer.interfaces import Batch, Sizes
from plugformer.model import build
from plugformer.registry import Kind
from plugformer.runs.checkpoint import TrainingState, load_checkpoint
from plugformer.training.strategy import TrainingStrategy
from plugformer.training.stream import PreparedBatches
from plugformer.training.trainer import Monitor, Trainer
from plugformer.validation import validate

STEPS, KILLED = 6, 3
SETTINGS = (
    "training.batches_per_update=2",
    f"training.evaluate_every={KILLED}",
    "model.dropout=0.2",
    "model.attention_dropout=0.1",
    "model.embeddings.shared=false",
)
LENGTHS = [(3, 2), (6,), (1, 4), (2, 5, 3), (4,)]
"""Of the examples of an epoch's five batches: the sixth that is read begins the second epoch."""


def pairs() -> list[Batch]:
    rows = [[[4 + (3 * n + token) % 8 for token in range(n)] for n in lengths] for lengths in LENGTHS]
    return [batches.pairs(each, [row[::-1] for row in each]) for each in rows]


def labeled() -> list[Batch]:
    texts = [[[4 + (3 * n + token) % 8 for token in range(n)] for n in each] for each in LENGTHS]
    return [
        batches.labeled(text, [n % 3 for n in each], range(len(each)))
        for text, each in zip(texts, LENGTHS, strict=True)
    ]


@pytest.fixture
def assert_exact(registry, tmp_path):
    """Trains to the end, and from the middle to the end: every bit must be equal."""

    def trainer(folder, task, batches, seed):
        seed_generators(seed)
        model = build(Experiment.of(task, registry).spec, Sizes(12, 12))
        optimizer, schedule = task.training.optimizer, task.training.schedule
        built = registry.create(Kind.OPTIMIZER, optimizer.name, **optimizer.options)
        return Trainer(
            run=Run(folder, task, model, STEPS, epoch_steps=100),
            strategy=TrainingStrategy(model, task.training),
            state=TrainingState(model, built.build(model.named_parameters())),
            schedules={"": registry.create(Kind.SCHEDULE, schedule.name, **schedule.options)},
            stream=PreparedBatches(
                split_of(batches),
                lambda epoch: [[(index + epoch) % len(batches)] for index in range(len(batches))],
                task.training,
            ),
            validation=SimpleNamespace(
                evaluate=lambda step: EvaluationResult(step, 0.0, 0.0, {}, [], best=False, seconds=0.0)
            ),
            monitor=Monitor("loss", higher_is_better=False),
            hooks=HookManager([], pytest.fail),
        )

    def check(task, batches):
        whole, resumed = tmp_path / "whole", tmp_path / "resumed"
        (whole / "checkpoints").mkdir(parents=True)
        trainer(whole, task, batches, seed=1).fit()
        middle = f"checkpoints/step-{KILLED:08d}"
        shutil.copytree(whole / middle, resumed / middle)
        second = trainer(resumed, task, batches, seed=2)
        assert load_checkpoint(resumed / "checkpoints", second.state, pytest.fail)
        assert (second.progress.epoch, second.progress.batch) == (1, 1)
        second.fit()
        for file in ("model.safetensors", "training.safetensors"):
            mine, yours = (
                (each / f"checkpoints/step-{STEPS:08d}" / file).read_bytes() for each in (whole, resumed)
            )
            assert mine == yours, file

    return check


def test_every_part(assert_exact, tiny_task, any_parts):
    assert_exact(tiny_task(*SETTINGS, *any_parts), pairs())


def test_classifier(assert_exact, registry, tmp_path):
    """The language model's head is in the test above."""
    file = tmp_path / "task.yaml"
    file.write_text(
        "type: classification\n"
        "data: {name: dates}\n"
        "tokenizer: characters\n"
        "model: {architecture: encoder-only, width: 16, heads: 2, layers: 2, head: classifier}\n"
    )
    task = validate(resolve(str(file), SETTINGS, registry), data=False).task
    assert_exact(task, labeled())
