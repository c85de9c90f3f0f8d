"""Floats as targets of tokens: from what a task type encodes to the head, the loss and the answer."""

import math

import pytest
import torch
from tests.data.test_subword_sampling import split
from tests.pieces import Pieces

from plugformer.errors import ExampleError
from plugformer.interfaces import Column, Level, TaskType
from plugformer.runs.loading import load
from plugformer.training.train import train
from plugformer_plugins.architecture.encoder_only import EncoderModel, EncoderOnly

PARTS = """
from itertools import chain

import torch
from torch import nn

from plugformer.errors import ConfigurationError, ExampleError
from plugformer.interfaces import Column, Head, Level, Likelihoods, OutputMetric, Prediction, TaskType
from plugformer_testing.metric import np


class Numbers(TaskType):
    level = Level.TOKEN
    output_type = "numbers"
    outputs = 1
    check_examples = (
        {"words": ["the", "red", "house"], "tags": ["0.5", "-1.25", "3"]},
        {"words": ["rain"], "tags": ["-100"]},
    )

    @property
    def columns(self):
        return (
            Column("words", "words", "input", tokenizer="source"),
            Column("tags", "tags", "output", along="words"),
        )

    def encode(self, examples, tokenizers):
        for row, tags in enumerate(examples.get("tags", ())):
            if unknown := [tag for tag in tags if tag == "\N{SNOWMAN}"]:
                raise ExampleError(row, f"{unknown} are no numbers")
        cut = [tokenizers.source.encode_words(words) for words in examples["words"]]
        numbers = examples.get("tags", [[0.0] * len(words) for words in cut])
        return {
            "input": [list(chain.from_iterable(words)) for words in cut],
            "targets": [
                [each for word, number in zip(*row) for each in (float(number), *[None] * (len(word) - 1))]
                for row in zip(cut, numbers)
            ],
        }

    def references(self, example):
        return [[float(number) for number in example["tags"]]]

    def answer(self, model, batch, tokenizers, n_best):
        if n_best > 1:
            raise ConfigurationError("numbers have no alternatives")
        rows = zip(model.logits(batch)[:, :, 0].double(), model.targets(batch)[1])
        return [Prediction(numbers[real].tolist()) for numbers, real in rows]


class Regressor(Head):
    levels = frozenset({Level.TOKEN})
    output_types = frozenset({"numbers"})
    probabilities = False

    def __init__(self, model):
        super().__init__()
        self.linear = nn.Linear(model.width, 1)

    def logits(self, hidden, real):
        return self.linear(hidden)

    def loss(self, hidden, targets, real):
        assert targets.dtype == torch.float32, targets.dtype
        errors = (self.linear(hidden)[:, :, 0] - targets) * real  # spreads a NaN
        return errors.square().sum(), real.sum()

    def likelihoods(self, hidden, targets, real):
        errors = (self.linear(hidden)[:, :, 0] - targets) * real
        return Likelihoods(errors.square().sum(1), real.sum(1), None, None)


class Error(OutputMetric):
    accepts = frozenset({"numbers"})
    higher_is_better = False

    def statistics(self, predictions, references):
        pairs = zip(predictions, references, strict=True)
        return np.array([[np.abs(np.subtract(one, right[0])).mean()] for one, right in pairs])

    def aggregate(self, statistics):
        return float(statistics.mean())
"""

MANIFEST = """\
components:
  task_type: {numbers: {class: "numbers_of_words:Numbers"}}
  head: {word_regressor: {class: "numbers_of_words:Regressor"}}
  metric: {error: {class: "numbers_of_words:Error"}}
"""

TASK = """\
type: numbers
data: {name: table, files: {train: train.jsonl, validation: train.jsonl}}
tokenizer: {name: characters}
model: {architecture: encoder-only, head: word_regressor, width: 16, heads: 2, layers: 1, ffn_width: 32}
training: {steps: 60, evaluate_every: 60, optimizer: {name: adamw, lr: 0.02}}
evaluation: {metrics: [error]}
"""


@pytest.fixture
def parts(registry, tmp_path):
    (tmp_path / "numbers_of_words.py").write_text(PARTS)
    (tmp_path / "registry.yaml").write_text(MANIFEST)
    return registry.with_local(tmp_path / "registry.yaml")


def test_a_model_learns_fractions_and_answers_with_them(parts, tmp_path):
    rows = [("aa b", "0.25 -0.75"), ("b b aa", "-0.75 -0.75 0.25"), ("b", "-0.75"), ("aa aa", "0.25 0.25")]
    lines = (f'{{"words": "{words}", "tags": "{numbers}"}}\n' for words, numbers in rows * 8)
    (tmp_path / "train.jsonl").write_text("".join(lines))
    (tmp_path / "task.yaml").write_text(TASK)
    report = train(str(tmp_path / "task.yaml"), out=tmp_path / "run", registry=parts).report
    assert report.metrics["error"]["value"] < 0.1  # whole numbers err by 0.25 at least
    answer = load(report.run, registry=parts).predict("b aa")
    assert answer.output == pytest.approx([-0.75, 0.25], abs=0.2)


class Given(TaskType):
    """Encodes what an example has."""

    level = Level.TOKEN
    output_type = "numbers"
    given = ()
    outputs = 1

    @property
    def columns(self):
        return (Column("text", "text", "input", tokenizer="source"),)

    def encode(self, examples, tokenizers):
        places = range(len(examples["text"]))
        return {
            "input": tokenizers.source.encode(examples["text"]),
            "targets": [self.given[place % len(self.given)] for place in places],
        }


def batch(targets):
    class Mine(Given):
        pass

    Mine.given = targets
    made = split(Mine(), EncoderOnly(), {"text": ["the fox" for _ in targets]}, drawing=Pieces)
    return made.batch(range(len(made)))


def read(made):
    return EncoderModel.targets(EncoderModel.__new__(EncoderModel), made)


@pytest.fixture(autouse=True)
def at_level_token(monkeypatch):
    monkeypatch.setattr(EncoderModel, "level", Level.TOKEN, raising=False)


def test_floats_stay_floats_and_none_is_no_number():
    made = batch([[0.5, None, -100.0, 1e-3], [None, None, 2.5, None]])
    assert made.targets.dtype == torch.float32
    targets, real = read(made)
    assert [row[marks].tolist() for row, marks in zip(targets, real, strict=True)] == [
        [0.5, -100.0, pytest.approx(1e-3)],
        [2.5],
    ]
    assert torch.equal(targets[~real], torch.zeros(int((~real).sum())))


def test_none_among_integers_is_no_number():
    made = batch([[3, None, -100, 1]])
    assert made.targets.dtype == torch.int64
    targets, real = read(made)
    assert targets[real].tolist() == [3, -100, 1]


@pytest.mark.parametrize(
    ("targets", "row", "words"),
    [
        ([[0.5, 1.0, 1.0, 2.0], [0.5, math.nan, 1.0, 2.0]], 1, "nan"),
        ([[0.5, math.inf, 1.0, 2.0]], 0, "inf"),
    ],
)
def test_what_is_no_target_is_refused(targets, row, words):
    with pytest.raises(ExampleError, match=words) as raised:
        batch(targets)
    assert raised.value.row == row
