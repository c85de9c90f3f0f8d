"""A model whose scores are not finite: every search ends with an error that names the input."""

import math
from unittest.mock import Mock

import pytest
import torch
from tests.batches import labeled, pairs

from plugformer.data.processor import Processor
from plugformer.errors import NotFiniteError
from plugformer.evaluation.predictor import Predictor
from plugformer.interfaces import END, AllowedOutputs, Model, Prediction, Session
from plugformer.registry import Kind
from plugformer.runs.loading import load
from plugformer.runs.store import load_tensors, save_tensors
from plugformer_inspection import inspect_attention

VOCABULARY = 12  # of tiny models

searches = pytest.mark.parametrize("search", ["greedy", "sampling", "beam"])


def session(model, limit=5, *, exact=False):
    batch = pairs([[4, 5], [6, 7], [8, 9]])
    constraint = AllowedOutputs(limit + 1, max_length=limit, length=limit if exact else None)
    return Session(model.eval(), batch, constraint, [10, 11, 12])


@searches
@pytest.mark.parametrize("exact", [False, True])  # so that no output may end yet
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_the_input_is_named(tiny_model, registry, search, value, exact):
    model = tiny_model("model.embeddings.shared=false")
    with torch.inference_mode():
        model.encoder.embedding.weight[6] = value
        with pytest.raises(NotFiniteError, match=r"not finite for input 12 \(counted from 1\)"):
            registry.create(Kind.DECODING, search).search(session(model, exact=exact))


@searches
def test_scores_that_stop_being_finite_on_the_way(tiny_model, registry, search):
    model = tiny_model("model.embeddings.shared=false", "model.head={name: language_model, bias: true}")
    with torch.inference_mode():
        model.decoder.embedding.weight[4] = torch.nan
        model.head.bias.fill_(-1e9)
        model.head.bias[4] = 0.0
        with pytest.raises(NotFiniteError, match="not finite for input 11 "):
            registry.create(Kind.DECODING, search).search(session(model))


@searches
def test_an_output_that_can_never_end(tiny_model, registry, search):
    model = tiny_model("model.head={name: language_model, bias: true}")
    with torch.inference_mode():
        model.head.bias[END] = -torch.inf
        with pytest.raises(NotFiniteError, match="not finite for input 11 "):
            registry.create(Kind.DECODING, search).search(session(model))


def test_a_damaged_run_answers_nothing(run_copy, registry):
    file = run_copy / "model.safetensors"
    save_tensors({name: each * torch.nan for name, each in load_tensors(file).items()}, file)
    trained = load(run_copy, registry)
    for answer in (
        lambda: trained.predict(["May 1, 2001"]),
        lambda: trained.evaluate("validation"),
        lambda: inspect_attention(trained, "May 1, 2001"),
    ):
        with pytest.raises(NotFiniteError, match="numbers that are not finite for input 1 "):
            answer()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_is_a_finite_one(value):
    answers = [Prediction(1.5), Prediction("text"), Prediction(value)]
    known = Mock(Processor, task_type=Mock(answer=lambda *_: answers), tokenizers={})
    with pytest.raises(NotFiniteError, match="not finite for input 23 "):
        Predictor(Mock(Model), known, 100).answer(labeled([[4], [5], [6]], [0, 0, 0], [0, 1, 2]), 20)
