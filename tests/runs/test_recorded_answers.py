"""Every type of task records answers to made-up questions; the saved model gives them, another does not."""

import json

import pytest
import torch

from plugformer.errors import NotFiniteError
from plugformer.runs.loading import load
from plugformer.runs.self_check import record_answers, same_answers
from plugformer.training.train import train

TEXTS = ["the red house", "a cat sat", "it rains now", "nobody saw it"]
SIZES = {"width": 8, "heads": 1, "layers": 1, "ffn_width": 8, "max_length": 64}
PAIRS = [{"first": text, "second": text[::-1], "number": 1.5} for text in TEXTS]
CASES = {
    "classification": ("classifier", [{"text": text, "label": text[0]} for text in TEXTS]),
    "language-modelling": ("language_model", [{"text": text} for text in TEXTS]),
    "masked-language-modelling": ("masked_token", [{"text": text} for text in TEXTS]),
    "multi-label": ("multi_label", [{"text": text, "labels": list(text[:1])} for text in TEXTS]),
    "regression": ("regressor", [{"text": text, "number": len(text) / 2} for text in TEXTS]),
    "retrieval": ("contrastive", PAIRS),
    "similarity": ("cosine", PAIRS),
    "tagging": ("token_classifier", [{"words": text.split(), "tags": text.split()} for text in TEXTS]),
}


@pytest.mark.parametrize("name", CASES)
def test_answers_of_every_type(name, registry, tmp_path):
    head, rows = CASES[name]
    generates = name == "language-modelling"
    architecture = "decoder-only" if generates else "encoder-only"
    task = {
        "type": name,
        "data": {"name": "memory"},
        "tokenizer": "characters",
        "model": {**SIZES, "architecture": architecture, "head": head},
        "training": {"steps": 1, "batch_size": 4},
    }
    data = {"train": rows, "validation": rows}
    train(task, data=data, out=tmp_path / "run", registry=registry, notify=str)
    recorded = json.loads((tmp_path / "run" / "self_check.json").read_text())["answers"]
    trained = load(tmp_path / "run", registry)
    assert recorded
    assert same_answers(trained, recorded)
    with torch.no_grad():
        for parameter in trained.model.parameters():
            parameter.mul_(1.1)
    assert not same_answers(trained, recorded)


def test_no_answer_is_recorded_that_is_not_finite(trained):
    model = load(trained.directory)
    with torch.no_grad():
        next(model.model.parameters()).fill_(torch.nan)
    with pytest.raises(NotFiniteError):
        model.predict(TEXTS)
    assert record_answers(model) == []
