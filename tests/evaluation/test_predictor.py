"""Answers: in the order of the examples, whatever the batches; the model as it was before."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch.nn import functional

import plugformer
from plugformer.data.encoding import EncodedSplit
from plugformer.data.preparation import prepare
from plugformer.data.processor import Inputs, Processor
from plugformer.errors import ConfigurationError, LengthError, RunError
from plugformer.evaluation.evaluator import Evaluator, Validation, unscored
from plugformer.evaluation.predictor import GenerativePredictor, Predictor
from plugformer.experiment import Experiment
from plugformer.interfaces import AllowedOutputs, Batch, SourceMetric, evaluating
from plugformer.registry import Kind
from plugformer.runs.loading import load
from plugformer_plugins.head.pooling import Classifier
from plugformer_plugins.metric.accuracy import ExactMatch
from plugformer_plugins.metric.likelihood import Perplexity
from plugformer_plugins.task_type.classification import Classification
from plugformer_plugins.tokenizer.word_level import Characters

TEXTS = ["May 1, 2001", "1/2/99", "Sunday, October 14, 2029", "3/4/2005", "5 May 2020"]


@pytest.fixture(scope="module")
def run(trained):
    return load(trained.directory)


@pytest.fixture
def data(run, registry):
    return prepare(run.experiment, run.processor)


def questions(run, texts) -> EncodedSplit:
    return Inputs.of(texts, run.experiment, run.processor).split


@pytest.fixture
def split(run) -> EncodedSplit:
    return questions(run, TEXTS)


@pytest.fixture
def predictor(run, registry):
    def make(decoding="greedy", batch_tokens=1000):
        component = registry.create(Kind.DECODING, decoding)
        constraint = AllowedOutputs(40, max_length=6)
        return GenerativePredictor(run.model, run.processor, batch_tokens, component, constraint)

    return make


@pytest.mark.parametrize("decoding", ["greedy", "sampling", "beam"])
def test_answers_do_not_depend_on_batches(predictor, split, decoding):
    together = predictor(decoding).predict(split)
    for batch_tokens in (1, 30, 60):
        found = predictor(decoding, batch_tokens).predict(split)
        assert [answer.output for answer in found] == [answer.output for answer in together]
        assert [answer.score for answer in found] == pytest.approx([a.score for a in together], abs=1e-4)


def test_batches_are_halved_when_memory_runs_out(predictor, split):
    expected = predictor().predict(split)
    small, sizes = predictor(), []
    answer = small.answer

    def limited(batch, first):
        sizes.append(len(batch.rows))
        if len(batch.rows) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return answer(batch, first)

    small.answer = limited
    with pytest.warns(RuntimeWarning, match="memory has run out"):
        found = small.predict(split)
    assert [each.output for each in found] == [each.output for each in expected]
    assert sizes[0] == len(TEXTS)
    assert sum(size for size in sizes if size <= 2) == len(TEXTS), "each example is answered once"
    sizes.clear()
    assert [each.output for each in small.predict(split)] == [each.output for each in expected]
    assert max(sizes) <= 2, "the size that fits is kept"


def test_an_example_that_does_not_fit_alone(predictor, split):
    def failing(batch, first):
        raise RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)")

    one = predictor(batch_tokens=1)
    one.answer = failing
    with pytest.raises(RunError, match=r"example \d[\s\S]*decoding\.max_length") as caught:
        one.predict(split)
    assert "9 GB" in str(caught.value)


def test_portions_continue_the_random_choices(run, predictor, split):
    everything = predictor("sampling").predict(split)
    tail = questions(run, TEXTS[2:])
    found = predictor("sampling").predict(tail, first=2)
    assert [answer.output for answer in found] == [answer.output for answer in everything[2:]]


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was_even_by_an_error(run, predictor, split, training):
    run.model.train(training)
    failing = predictor()
    failing.answer = lambda batch, first: (_ for _ in ()).throw(LengthError("too long"))
    with pytest.raises(LengthError) as caught:
        failing.predict(split)
    assert run.model.training is training
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled(), caught.traceback
    run.model.eval()


def test_labels_with_their_log_probabilities(tiny_model, tmp_path, sentences):
    file = tmp_path / "task.yaml"
    file.write_text(
        "type: classification\ndata: {name: dates}\ntokenizer: characters\n"
        "model: {architecture: encoder-only, embeddings: {shared: false}, head: classifier}\n"
    )
    model = tiny_model("model.position=rope", task=str(file)).eval()
    task_type = Classification()
    task_type.state = names = [f"class {number}" for number in range(12)]
    processor = Processor(Characters(), Characters(), task_type)
    batch = Batch(sentences("right", begin=True), rows=[0, 1, 2])
    answers = Predictor(model, processor, 100).answer(batch, 0)
    with torch.no_grad():
        probabilities = model.logits(batch).softmax(dim=-1)
    assert [answer.output for answer in answers] == [names[each] for each in probabilities.argmax(1)]
    assert np.exp([answer.score for answer in answers]) == pytest.approx(probabilities.amax(1).numpy())

    ranked = Predictor(model, processor, 100, n_best=3).answer(batch, 0)
    assert [replace(answer, alternatives=()) for answer in ranked] == answers
    scores = [[answer.score, *(each.score for each in answer.alternatives)] for answer in ranked]
    assert np.exp(scores) == pytest.approx(probabilities.sort(descending=True).values[:, :3].numpy())
    with pytest.raises(ConfigurationError, match="n_best is 13, but there are only 12 labels"):
        Predictor(model, processor, 100, n_best=13).answer(batch, 0)


@pytest.mark.parametrize("n_best", [0, "2"])
def test_a_number_of_outputs_that_is_none_is_an_error(run, split, n_best):
    predictor = run.predictor()
    predictor.n_best = n_best  # the types of arguments are checked in tests alone
    with pytest.raises(ConfigurationError, match=f"{n_best!r} outputs are asked for"):
        predictor.predict(split)


class Margins(Classifier):
    """The class with the largest score, learned by margins: https://arxiv.org/abs/1306.0239, equation 8."""

    probabilities = False

    def losses(self, logits, targets):
        return functional.multi_margin_loss(logits, targets, reduction="none")


def test_answers_of_a_head_without_probabilities_have_no_scores(tmp_path):
    task = {
        "type": "classification",
        "tokenizer": "characters",
        "model": {"architecture": "encoder-only", "head": "margins", "layers": 1, "width": 16, "heads": 2},
        "training": {"steps": 2},
        "evaluation": {"metrics": []},
    }
    rows = [{"text": text, "label": label} for text, label in zip("abcdefgh", "xyxyxyxy", strict=True)]
    data = {"train": rows, "validation": rows, "test": rows}
    components = {"head": {"margins": Margins}}
    model = plugformer.train(task, data=data, components=components, out=tmp_path / "run", notify=str)
    answer = model.predict("a", n_best=2)
    assert {answer.output, answer.alternatives[0].output} == {"x", "y"}
    assert [(each.score, each.probability) for each in (answer, *answer.alternatives)] == [(None, None)] * 2


def test_loss_and_accuracy_with_the_right_answers_given(run, data):
    """Over single examples, each alone in its batch, and over all together."""
    split = data.splits["train"]
    found = Evaluator(run.predictor(), {}).likelihoods(split)
    alone = []
    with evaluating(run.model):
        for row in range(len(split)):
            batch = split.batch([row])
            right = run.model.logits(batch).argmax(-1) == batch.target.ids[:, 1:]
            alone.append((run.model(batch).total.item(), right.numel(), right.sum().item()))
    columns = found.losses, found.targets, found.correct
    assert np.stack(columns, axis=1) == pytest.approx(np.array(alone), rel=1e-4)
    assert torch.equal(found.log_probabilities, -found.losses)
    totals = np.sum(alone, axis=0)
    assert found.loss == pytest.approx(totals[0] / totals[1], rel=1e-5)
    assert found.token_accuracy == totals[2] / totals[1]


def test_a_metric_of_likelihoods_needs_no_decoding(run, data, monkeypatch):
    monkeypatch.setattr(
        GenerativePredictor, "answer", lambda *arguments: pytest.fail("an output was decoded")
    )
    evaluator = Evaluator(run.predictor(), {"perplexity": Perplexity()})
    score = evaluator.report(data.splits["test"], run.directory, "test").metrics["perplexity"]
    assert score["low"] < score["value"] < score["high"]


def test_a_report_has_the_statistics_that_its_scores_are_aggregates_of(run, data, tmp_path):
    metrics = {"exact": ExactMatch(), "perplexity": Perplexity()}
    report = Evaluator(run.predictor(), metrics).report(data.splits["test"], tmp_path, "test")
    for name, metric in metrics.items():
        assert len(report.statistics[name]) == len(data.splits["test"])
        assert metric.aggregate(report.statistics[name]) == report.metrics[name]["value"]
    assert "statistics" not in report.as_json()


class Spy(GenerativePredictor):
    """Notes which rows it is asked for."""

    def predict(self, split, rows=None, *, first=0):
        self.asked = list(rows)
        return super().predict(split, rows, first=first)


@pytest.mark.parametrize(
    ("metrics", "limit", "samples", "asked", "shown"),
    [
        (True, 4, 2, [0, 13, 27, 40], [0, 27]),  # of 54
        (True, None, 2, list(range(54)), [0, 27]),
        (True, 99, 0, list(range(54)), []),
        (True, 1, 5, [0], [0]),
        (False, 4, 2, [0, 27], [0, 27]),  # without a metric only what is shown is decoded
        (False, 4, 0, [], []),
    ],
)
def test_validation_decodes_what_is_measured_or_shown_evenly_spread(
    run, registry, predictor, data, metrics, limit, samples, asked, shown
):
    predicting = predictor()
    predicting.__class__ = Spy
    measured = {"exact_match": registry.create(Kind.METRIC, "exact_match")} if metrics else {}
    split = data.splits["train"]
    validation = Validation(Evaluator(predicting, measured), split, limit=limit, samples=samples)
    evaluation = validation.evaluate(7)
    assert getattr(predicting, "asked", []) == asked
    assert evaluation.step == 7
    assert evaluation.metrics.keys() == measured.keys()
    assert [sample.source for sample in evaluation.samples] == [split.input(row) for row in shown]
    outputs = [prediction.output for prediction in predictor().predict(split, shown)]
    assert [sample.output for sample in evaluation.samples] == outputs
    assert validation.samples() == evaluation.samples


class Picky(SourceMetric):
    """Refuses a source and its right answer."""

    def statistics(self, sources, predictions, references):
        raise ConfigurationError(f"{predictions[0]!r} is no answer to {sources[0]!r}")

    def aggregate(self, statistics):
        return 0.0


def test_metrics_that_refuse_right_answers_say_so_before_a_training(run, data):
    split = data.splits["validation"]
    installed = Mock(Experiment, task=run.task, create=lambda *_: Picky())
    ((path, message),) = unscored(installed, split)
    assert path == ("evaluation", "metrics", 0)
    assert message == f"{split.references(0)[0]!r} is no answer to {split.input(0)!r}"
