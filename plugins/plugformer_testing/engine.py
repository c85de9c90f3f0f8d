"""The contract of engines, see plugformer.interfaces.Engine."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from plugformer import train
from plugformer.evaluation import close
from plugformer.registry import Kind
from plugformer.runs import TrainedModel
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject

_COLOURS = ("red", "green", "blue", "grey")
_TEXTS = [f"{one} {two}" for one in _COLOURS for two in _COLOURS] + [*_COLOURS]
_MODEL = {"width": 16, "heads": 2, "layers": 1, "ffn_width": 16, "max_length": 12, "dropout": 0.0}
_TASKS: Mapping[str, Mapping[str, Any]] = {
    "plugformer:sequence-to-sequence": {
        "columns": ("source", "target"),
        "model": {"architecture": "plugformer:encoder-decoder", "head": "language_model"},
        "evaluation": {"metrics": ["exact_match"], "samples": 0},
        "decoding": {"name": "beam", "size": 2, "max_length": 4},
    },
    "plugformer:classification": {
        "columns": ("text", "label"),
        "model": {"architecture": "plugformer:encoder-only", "head": "classifier"},
        "evaluation": {"metrics": ["accuracy"], "samples": 0},
    },
}


@contextmanager
def _trained(kind: str) -> Iterator[TrainedModel]:
    """A small trained model of a type of task; what its engines keep is gone afterwards."""
    settings = dict(_TASKS[kind])
    question, answer = settings.pop("columns")
    rows = [{question: text, answer: text.split()[0]} for text in _TEXTS]
    data = dict.fromkeys(("train", "validation", "test"), rows)
    with tempfile.TemporaryDirectory() as place:
        task = {
            "type": kind,
            "tokenizer": {"name": "words"},
            "training": {"steps": 2, "batch_size": 8, "evaluate_every": 2},
            **settings,
            "model": {**_MODEL, **settings["model"], "position": "learned", "attention": "mha"},
        }
        with mock.patch.dict(os.environ, PLUGFORMER_CACHE=str(Path(place) / "cache")):
            yield train(task, data=data, out=Path(place) / "run")


@contract_check(Kind.ENGINE, cases=tuple(_TASKS))
def it_answers_as_the_model_does(subject: Subject, kind: str) -> None:
    """Outputs and scores are those of the model, for one text and for several; or the run is refused."""
    with _trained(kind) as trained:
        expected = trained.predict(_TEXTS)
        trained.answered_by = subject.create().answering(trained, lambda _: None)
        together, alone = trained.predict(_TEXTS), [trained.predict(text) for text in _TEXTS[:3]]
    for how, found in (("together", together), ("alone", alone)):
        for text, one, two in zip(_TEXTS, expected, found, strict=False):
            same = close([one.output, one.score], [two.output, two.score])
            require.that(same, f"{text!r}, {how}: answered {two}, expected {one}")
