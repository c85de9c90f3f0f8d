"""Floats as targets of tokens: from what a task type encodes to the head, the loss and the answer."""

import json
import math
from pathlib import Path

import pytest
import torch
from tests.data.test_subword_sampling import split
from tests.pieces import Pieces

from plugformer.errors import DataError
from plugformer.interfaces import Column, Level, TaskType
from plugformer.runs.loading import load
from plugformer.training.train import train
from plugformer_plugins.architecture.encoder_only import EncoderModel, EncoderOnly

GALLERY = Path(__file__).resolve().parents[2] / "examples/gallery/plugformer_gallery/registry.yaml"
TASK = """\
type: token-regression
data: {name: %s, files: {train: %s, validation: %s}}
tokenizer: {name: characters}
model: {architecture: encoder-only, head: word_regressor, width: 16, heads: 2, layers: 1, ffn_width: 32}
training: {steps: 60, evaluate_every: 60, optimizer: {name: adamw, lr: 0.02}}
evaluation: {metrics: [mean_absolute_error]}
"""
ROWS = [
    ("aa b", [0.25, -0.75]),
    ("b b aa", [-0.75, -0.75, 0.25]),
    ("b", [-0.75]),
    ("aa aa", [0.25, 0.25]),
] * 8


@pytest.mark.parametrize("suffix", ["jsonl", "tsv", "conll"])
def test_a_model_learns_fractions_and_answers_with_them(registry, tmp_path, suffix):
    """From lists of JSON, from text, and from a number behind each word."""
    forms = {
        "jsonl": [json.dumps({"words": words, "numbers": numbers}) for words, numbers in ROWS],
        "tsv": ["words\tnumbers", *(f"{words}\t{' '.join(map(str, numbers))}" for words, numbers in ROWS)],
        "conll": [
            "".join(f"{word} {number}\n" for word, number in zip(words.split(), numbers, strict=True))
            for words, numbers in ROWS
        ],
    }
    file = tmp_path / f"train.{suffix}"
    file.write_text("\n".join(forms[suffix]) + "\n")
    data = "conll, columns: {words: 1, numbers: 2}" if suffix == "conll" else "table"
    (tmp_path / "task.yaml").write_text(TASK % (data, file.name, file.name))
    parts = registry.with_local(GALLERY)
    steps = [] if suffix == "jsonl" else ["training.steps=2", "training.evaluate_every=2"]
    task = str(tmp_path / "task.yaml")
    report = train(task, overrides=steps, out=tmp_path / "run", registry=parts).report
    answer = load(report.run, registry=parts).predict("b aa")
    assert len(answer.output) == 2
    if not steps:
        assert report.metrics["mean_absolute_error"]["value"] < 0.1  # whole numbers err by 0.25 at least
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
    with pytest.raises(DataError, match=f"^{row}: .*{words}"):
        batch(targets)
