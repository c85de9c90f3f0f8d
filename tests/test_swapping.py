"""Every registered value of every neural kind assembles by name and learns; every entry says what it is."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
from tests.training.trainers import make_trainer

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.hooks import hookimpl
from plugformer.interfaces import ABSENT, Batch, Tokens
from plugformer.registry import Kind
from plugformer.validation import validate

STEPS = 8
CLASSIFICATION = """\
type: classification
data: {name: dates}
tokenizer: characters
model: {architecture: encoder-only, embeddings: {shared: false}, head: classifier}
"""


class Losses:
    def __init__(self) -> None:
        self.values = []

    @hookimpl
    def step_ended(self, update):
        self.values.append(update.loss)


@pytest.fixture
def losses(registry, tmp_path):
    """Trains a task's model on one batch, again and again, and returns the loss at each update."""

    def train(task, batch, outputs=12):
        logged = task.training.model_copy(update={"log_every": 1})  # on a GPU no other update has its loss
        task = task.model_copy(update={"training": logged})
        seen = Losses()
        options = {"steps": STEPS, "outputs": outputs, "callbacks": [seen]}
        trainer = make_trainer(registry, tmp_path / f"{next(runs)}", task, [batch], **options)
        trainer.fit()
        assert all(parameter.grad is None for parameter in trainer.run.model.parameters())
        return seen.values

    runs = count()
    return train


@pytest.fixture
def pairs(sentences) -> Batch:
    return Batch(sentences("right"), sentences("right", begin=True, shift=3))


def assert_falls(values) -> None:
    assert len(values) == STEPS
    assert all(torch.tensor(values).isfinite())
    assert values[-1] < values[0]


def test_learns_from_padded_batches(losses, tiny_task, sentences):
    batch = Batch(sentences(), sentences(begin=True))
    values = losses(tiny_task("training.optimizer={name: adam, lr: 0.01}"), batch)
    assert values[-1] < values[0] - 0.3


def test_every_part_learns(losses, tiny_task, pairs, any_parts):
    settings = (each for each in any_parts if each.startswith("model."))
    assert_falls(losses(tiny_task(*settings), pairs))


def test_every_optimizer_learns(losses, tiny_task, pairs, any_optimizer):
    assert_falls(losses(tiny_task(f"training.optimizer={any_optimizer}"), pairs))


def test_every_schedule_learns(losses, tiny_task, pairs, any_schedule):
    assert_falls(losses(tiny_task(f"training.schedule={any_schedule}"), pairs))


@pytest.mark.parametrize(
    "override",
    [
        "model.final_norm=false",
        "model.embeddings={shared: false, tied: false, scaled: false}",
        "model.embeddings={shared: true, tied: true, scaled: true}",
        "model.embeddings={shared: false, tied: true, scaled: false}",
        "model.decoder.cross_attention.position=rope",
        "model.encoder.layers=2",
        "model.decoder.per_layer={0: {attention: mqa, feed_forward: relu, norm: rms_norm}}",
        "model.dropout=0.2",
        "model.attention_dropout=0.2",
        "model.head={name: language_model, label_smoothing: 0.1}",
        "training.batches_per_update=2",
        "training.gradient_clipping=null",
    ],
)
def test_every_setting_of_the_core_learns(losses, tiny_task, pairs, override):
    assert_falls(losses(tiny_task(override, "training.optimizer={name: adam, lr: 0.01}"), pairs))


@pytest.fixture
def classification(tmp_path):
    file = tmp_path / "task.yaml"
    file.write_text(CLASSIFICATION)
    return str(file)


@pytest.mark.parametrize("pooling", ["first", "last", "max", "mean", "sum"])
def test_every_pooling_learns(losses, tiny_task, sentences, classification, pooling):
    task = tiny_task(f"model.head={{name: classifier, pooling: {pooling}}}", task=classification)
    batch = Batch(sentences(begin=True), targets=torch.tensor([2, 0, 1]))
    assert_falls(losses(task, batch))


@pytest.fixture
def targets(sentences) -> dict[str, torch.Tensor]:
    """Those of three examples by type of task, besides texts."""
    source = sentences("right", begin=True)
    return {
        "classification": torch.tensor([2, 0, 1]),
        "multi-label": torch.eye(12)[[2, 0, 1]],
        "regression": torch.tensor([0.5, -1.0, 2.0]),
        "similarity": torch.tensor([0.5, -1.0, 2.0]),
        "retrieval": torch.tensor([2, 0, 1]),
        "tagging": source.ids.remainder(3).masked_fill(~source.mask | (source.ids < 4), ABSENT),
    }


def test_every_head_learns(losses, tiny_task, sentences, pairs, targets, tmp_path, any_head):
    """A head answers one type of task at least; which, its levels and answers tell."""
    learned = []
    for name in ("sequence-to-sequence", *targets):
        task, batch = "dates", pairs
        if name in targets:
            task = str(tmp_path / f"{name}.yaml")
            Path(task).write_text(CLASSIFICATION.replace("classification", name))
            read = sentences("right", begin=True)
            other = Tokens(read.ids.flip(0), read.mask.flip(0), read.full)
            pair = {"first": read, "second": other} if name in ("similarity", "retrieval") else {}
            batch = Batch(reads=pair) if pair else Batch(read)
            batch = replace(batch, targets=targets[name])
        try:
            validate(resolve(task, [f"model.head={any_head}", "training.batch_size=3"]), data=False)
        except ConfigurationError as error:
            assert f"head '{any_head}' predicts" in str(error)
            continue
        outputs = 1 if name == "regression" else 12
        assert_falls(losses(tiny_task(f"model.head={any_head}", task=task), batch, outputs))
        learned.append(name)
    assert learned


def test_every_entry_says_what_it_is_and_where_it_comes_from(registry):
    for entry in registry.entries():
        assert entry.summary.endswith("."), f"{entry}: a summary is one sentence"
        if entry.kind not in (Kind.COLUMN, Kind.DATA):
            assert entry.source.startswith("https://"), entry
