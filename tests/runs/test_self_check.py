"""The self-check of a saved model: nothing built in fails it, and every fault that it is there for does."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

import plugformer
from plugformer.data.encoding import EncodedSplit
from plugformer.data.preparation import prepare
from plugformer.interfaces import (
    END,
    Column,
    Head,
    Hypothesis,
    Input,
    Level,
    OutputType,
    Prediction,
    TaskType,
    evaluating,
)
from plugformer.interfaces.context import State
from plugformer.runs.loading import TrainedModel, load
from plugformer.runs.self_check import outputs_apart
from plugformer.training.train import train
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_plugins.decoding.beam import Beam
from plugformer_plugins.decoding.sampling import Greedy

SEQUENCES = ["cached = uncached", "batch = single", "beam of 1 = greedy", "saved = loaded"]
LABELS = ["batch = single", "padded = unpadded", "saved = loaded"]
LONGER = ("decoding.max_length=12", "training.steps=2")
CLASSES = """\
type: classification
data:
  name: table
  files: {train: texts.csv}
  columns: {text: text, label: label}
  split: {validation: 8, by: order}
tokenizer: characters
model: {architecture: encoder-only, width: 16, heads: 2, layers: 1, ffn_width: 16, head: classifier}
training: {steps: 2, batch_size: 8}
evaluation: {metrics: [accuracy]}
"""


@dataclass(frozen=True)
class Checked:
    """A loaded run and its validation examples."""

    model: TrainedModel
    split: EncodedSplit

    def failed(self):
        return [each.name for each in self.model.check_itself(self.split).failed]

    def found(self, name):
        return {each.name: each for each in self.model.check_itself(self.split).comparisons}[name]


def checked(directory):
    model = load(directory)
    return Checked(model, prepare(model.experiment, model.processor).splits["validation"])


@pytest.fixture(scope="module")
def sequences(train_tiny, tmp_path_factory):
    out = tmp_path_factory.mktemp("sequences") / "run"
    train_tiny(out, *LONGER)
    return out


@pytest.fixture
def run(sequences):
    return checked(sequences)


def classifier(registry, folder, *overrides):
    rows = [f"{'ab'[number % 2] * (1 + number % 7)},{'xy'[number % 2]}" for number in range(40)]
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows]))
    (folder / "task.yaml").write_text(CLASSES)
    train(str(folder / "task.yaml"), out=folder / "run", registry=registry, overrides=overrides, notify=str)
    return folder / "run"


@pytest.fixture(scope="module")
def labels(registry, tmp_path_factory):
    return classifier(registry, tmp_path_factory.mktemp("labels"))


def test_every_training_ends_with_it(sequences, labels):
    for directory, names in ((sequences, SEQUENCES), (labels, LABELS)):
        record = json.loads((directory / "self_check.json").read_text())
        assert record["passed"]
        assert record["tolerance"] == 1e-3
        assert [each["check"] for each in record["checks"]] == names
        assert all(each.keys() == {"check", "passed", "difference"} for each in record["checks"])
        assert len(record.pop("answers")) == 4
        assert record == {**load(directory).check_itself().as_json(), "checks": record["checks"]}


@pytest.mark.parametrize("search", ["{name: beam, size: 3}", "{name: sampling, seed: 3}"])
def test_every_search_passes(train_tiny, tmp_path, search):
    report = train_tiny(tmp_path / "run", f"decoding={search}", *LONGER)
    assert report.self_check.passed, report.self_check.failed


def test_every_part_passes(train_tiny, tmp_path, any_parts):
    report = train_tiny(tmp_path / "run", *any_parts, *LONGER)
    assert report.self_check.passed, report.self_check.failed


class Choice(TaskType):
    """Chooses one of several candidates."""

    level = Level.VECTOR
    output_type = OutputType.TEXT
    columns = (
        Column("candidates", "texts", "input", tokenizer="source"),
        Column("answer", "text", "output", tokenizer="target"),
    )
    inputs = (Input("candidates", many=True),)

    def encode(self, examples, tokenizers):
        return {
            "candidates": [tokenizers.source.encode(texts) for texts in examples["candidates"]],
            "targets": [0] * len(examples["candidates"]),
        }

    def answer(self, model, batch, tokenizers, n_best):
        scores = zip(batch.rows, model.logits(batch).tolist(), strict=True)
        return [Prediction(str(max(row))) for _, row in scores]


class Scores(Head):
    """Scores the candidates of an example by a hinge loss; those that are not there have a score of 0."""

    levels = frozenset({Level.VECTOR})
    output_types = frozenset({OutputType.TEXT})
    probabilities = False

    def __init__(self, model):
        super().__init__()
        self.score = nn.Linear(model.width, 1)

    def logits(self, hidden, context):
        return self.score(hidden)[..., 0].masked_fill(~context.real, 0.0)

    def losses(self, logits, targets):
        return (1 - logits[:, 0]).clamp(min=0.0)


def test_a_head_without_probabilities_is_checked_by_its_scores(tmp_path):
    rows = [{"candidates": list("abcdef"[: 1 + number % 5]), "answer": "a"} for number in range(12)]
    task = {
        "type": "choice",
        "tokenizer": "characters",
        "model": {"architecture": "encoder-only", "head": "scores", "layers": 1, "width": 16, "heads": 2},
        "training": {"steps": 2, "batch_size": 4},
        "evaluation": {"metrics": [], "samples": 0},
    }
    components = {"task_type": {"choice": Choice}, "head": {"scores": Scores}}
    splits = {"train": rows, "validation": rows, "test": rows}
    model = plugformer.train(task, data=splits, components=components, out=tmp_path / "run", notify=str)
    assert model.report.self_check.passed, model.report.self_check.failed
    assert [each.name for each in model.report.self_check.comparisons] == LABELS


def test_constrained_outputs_pass(train_tiny, tmp_path):
    overrides = ('decoding.pattern="[0-9]{4}-[0-9]{2}"', "decoding.max_length=12", "training.steps=2")
    report = train_tiny(tmp_path / "run", *overrides)
    assert report.self_check.passed, report.self_check.failed


def off_by_one(self, new, slots):
    """Values move by one against their keys whenever some are written behind others."""
    if self.tokens and slots.end > 1:
        key, value = self.tokens
        self.tokens = (key, value.roll(1, 2))
    return WRITE(self, new, slots)


def stuck(self, rows, used):
    """Keeps the first rows, whichever are selected."""
    SELECT(self, torch.arange(len(rows)).clamp(max=len(self.tokens[0]) - 1) if self.tokens else rows, used)


def see_padding(self, x, context):
    return FORWARD(self, x, replace(context, key=replace(context.key, mask=None)))


def mix_rows(self, x, context):
    read = FORWARD(self, x, context)
    return read - read.mean(dim=0, keepdim=True)


FORWARD, WRITE, SELECT = MultiHeadAttention.forward, State.write, State.select


def test_a_cache_that_is_off_by_one(run, monkeypatch):
    monkeypatch.setattr(State, "write", off_by_one)
    found = run.found("cached = uncached")
    assert not found.passed
    assert found.difference > 0.01
    assert found.example in {run.split.input(row) for row in range(len(run.split))}
    assert "`plugformer check attention/mha`" in found.likely


def test_a_model_that_puts_out_next_to_nothing_is_checked_with_the_right_answers(
    train_tiny, tmp_path, monkeypatch
):
    """An output of one token does not show what happens to a cache of two."""
    train_tiny(tmp_path / "run", "decoding.max_length=1", "training.steps=1")
    monkeypatch.setattr(State, "write", off_by_one)
    assert checked(tmp_path / "run").failed() == ["cached = uncached"]


def test_rows_that_do_not_move(run, train_tiny, tmp_path, monkeypatch):
    train_tiny(tmp_path / "run", "decoding={name: beam, size: 3}", *LONGER)
    monkeypatch.setattr(State, "select", stuck)
    assert "cached = uncached" in checked(tmp_path / "run").failed()


@pytest.mark.parametrize("fault", [see_padding, mix_rows])
def test_other_examples_of_the_batch_that_are_read(run, labels, monkeypatch, fault):
    monkeypatch.setattr(MultiHeadAttention, "forward", fault)
    assert "batch = single" in run.failed()
    assert "batch = single" in checked(labels).failed()


def test_labels_that_depend_on_padding(labels, monkeypatch):
    monkeypatch.setattr(MultiHeadAttention, "forward", see_padding)
    assert "padded = unpadded" in checked(labels).failed()


def count_padding(self, x, context):
    return FORWARD(self, x, context) * context.key.length


def test_padding_that_counts_is_found_in_a_decoder_alone(registry, tmp_path, monkeypatch):
    run = classifier(registry, tmp_path, "model.architecture=decoder-only")
    assert checked(run).failed() == []
    monkeypatch.setattr(MultiHeadAttention, "forward", count_padding)
    assert "padded = unpadded" in checked(run).failed()


def test_what_is_not_saved(run, labels, monkeypatch):
    """A component that learned a number which is neither a parameter nor a buffer."""

    def scaled(self, x, context):
        return FORWARD(self, x, context) * getattr(self, "learned", 1.0)

    monkeypatch.setattr(MultiHeadAttention, "forward", scaled)
    for each in (run, checked(labels)):
        for module in each.model.model.modules():
            module.learned = 3.0
        assert each.failed() == ["saved = loaded"]


def test_a_beam_that_is_not_greedy(run, monkeypatch):
    """The second best token first."""

    class Second(Greedy):
        def choose(self, session):
            best = session.log_probabilities.topk(2).indices
            return torch.where(best[:, 1] == END, best[:, 0], best[:, 1])

    monkeypatch.setattr(Beam, "search", lambda self, session: Second().search(session))
    assert run.failed() == ["beam of 1 = greedy"]


def test_a_component_that_raises(run, monkeypatch):
    def write(self, new, slots):
        raise NotImplementedError("tokens one by one")

    monkeypatch.setattr(State, "write", write)
    found = run.found("cached = uncached")
    assert found.error == "NotImplementedError: tokens one by one"
    assert found.as_json()["difference"] is None


def test_a_training_that_diverged(run):
    with torch.no_grad():
        next(run.model.model.parameters()).fill_(float("nan"))
    found = run.found("cached = uncached")
    assert not found.passed
    assert found.likely.startswith("the training has diverged")
    json.dumps(found.as_json(), allow_nan=False)


def test_tokens_of_nearly_the_same_probability_may_be_taken_for_one_another(run):
    """Outputs that part at the last token: by how much their probabilities differ is computed by one pass."""
    predictor = run.model.predictor()
    with evaluating(run.model.model):
        batch = run.split.batch([0])
        [[greedy]] = [hypotheses[:1] for hypotheses in predictor.search(batch, 0)]
        scores = run.model.model.logits(batch)[0, 0].log_softmax(dim=-1)  # of the first token, after BEGIN
        first, other = 5, 6
        apart = outputs_apart(
            predictor, run.split, [0], [Hypothesis([first, 7], -1.0)], [Hypothesis([other], -9.0)]
        )
        same = outputs_apart(
            predictor, run.split, [0], [greedy], [replace(greedy, score=greedy.score - 0.25)]
        )
    np.testing.assert_allclose(apart, [abs(scores[first] - scores[other]).item()], rtol=1e-4)
    assert same == pytest.approx([0.25])


def test_sequences_as_long_as_their_positions_pass(tmp_path):
    sizes = {"width": 16, "heads": 2, "layers": 1, "ffn_width": 16, "max_length": 16}
    parts = {"architecture": "decoder-only", "position": "learned", "head": "language_model"}
    rows = [{"text": "the sea and the hill " * 9}] * 4
    task = {
        "type": "language-modelling",
        "tokenizer": "characters",
        "model": {**parts, **sizes},
        "training": {"steps": 2, "batch_size": 4},
        "evaluation": {"metrics": ["perplexity"]},
    }
    data = {"train": rows, "validation": rows}
    assert train(task, data=data, out=tmp_path / "run", notify=str).report.self_check.failed == []
