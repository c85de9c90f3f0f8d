"""Small models behind applications, without a network."""

import asyncio
from dataclasses import dataclass
from functools import cached_property

import pytest
from httpx import ASGITransport, AsyncClient
from starlette.testclient import TestClient

import plugformer
from plugformer_serving.application import application
from plugformer_serving.limits import ServerLimits
from plugformer_serving.service import Service

TEXTS = ["a cat sat on the mat", "rain", "the red house stands by the sea", "no one was there"]
SMALL = {"layers": 1, "width": 16, "heads": 2, "ffn_width": 32, "max_length": 40}
TASKS = {
    "classes": (
        {
            "type": "classification",
            "tokenizer": "words",
            "model": {**SMALL, "architecture": "encoder-only", "head": "classifier"},
        },
        [{"text": text, "label": label} for text in TEXTS for label in ("good", "bad", "odd")],
    ),
    "labels": (
        {
            "type": "multi-label",
            "tokenizer": "words",
            "model": {**SMALL, "architecture": "encoder-only", "head": "multi_label"},
        },
        [{"text": text, "labels": ["red", "wet"][: len(text) % 3]} for text in TEXTS * 3],
    ),
    "number": (
        {
            "type": {"name": "regression", "inputs": ["first", "second"]},
            "tokenizer": "words",
            "model": {**SMALL, "architecture": "encoder-only", "head": "regressor"},
        },
        [{"first": text, "second": text[::-1], "number": len(text) / 7} for text in TEXTS * 3],
    ),
    "tags": (
        {
            "type": "tagging",
            "tokenizer": "whitespace",
            "model": {**SMALL, "architecture": "encoder-only", "head": "token_classifier"},
        },
        [{"words": text.split(), "tags": ["B-X", "I-X", "O"] * 2 + ["O"] * 4} for text in TEXTS * 3],
    ),
    "masks": (
        {
            "type": "masked-language-modelling",
            "tokenizer": "words",
            "model": {**SMALL, "architecture": "encoder-only", "head": "language_model"},
        },
        [{"text": text} for text in TEXTS * 3],
    ),
    "vectors": (
        {
            "type": "retrieval",
            "tokenizer": "words",
            "model": {**SMALL, "architecture": "encoder-only", "head": "contrastive"},
            "training": {"steps": 2, "batch_size": 8},
        },
        [{"first": text, "second": text[::-1]} for text in TEXTS * 3],
    ),
    "continuation": (
        {
            "type": "language-modelling",
            "tokenizer": "characters",
            "model": {**SMALL, "architecture": "decoder-only", "head": "language_model"},
            "decoding": {"name": "sampling", "max_length": 12},
        },
        [{"text": text} for text in TEXTS * 3],
    ),
    "source": (
        {
            "type": "sequence-to-sequence",
            "tokenizer": "characters",
            "model": {**SMALL, "architecture": "encoder-decoder", "head": "language_model"},
            "decoding": {"name": "beam", "size": 3, "max_length": 12},
        },
        [{"source": text, "target": text.upper()} for text in TEXTS * 3],
    ),
}


@dataclass
class Served:
    """A model, and a client of its application."""

    service: Service

    @cached_property
    def app(self):
        return application(self.service, ["localhost", "127.0.0.1", "[::1]"])

    @cached_property
    def client(self):
        return TestClient(self.app, "http://127.0.0.1", raise_server_exceptions=False)

    @property
    def trained(self):
        return self.service.trained

    def post(self, path, **body):
        return self.client.post(path, json=body)

    def post_at_once(self, path, bodies):
        """Returns the responses to requests that are sent together."""

        async def post():
            async with AsyncClient(transport=ASGITransport(self.app), base_url="http://127.0.0.1") as client:
                return await asyncio.gather(*(client.post(path, json=body) for body in bodies))

        return asyncio.run(post())


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Returns the tiny trained model with a name in TASKS."""
    found = {}

    def make(name):
        if name not in found:
            task, rows = TASKS[name]
            task = {
                "data": {"split": {"validation": 0.2, "test": 0.2}},
                "training": {"steps": 2},
                "evaluation": {"metrics": []},
                **task,
            }
            if isinstance(rows[0].get("tags"), list):
                rows = [row | {"tags": row["tags"][: len(row["words"])]} for row in rows]
            out = tmp_path_factory.mktemp("served") / name
            found[name] = plugformer.train(task, data=rows, out=out, notify=str)
        return found[name]

    return make


@pytest.fixture(scope="session")
def served(trained):
    """Returns a tiny model that is served, by its name in TASKS, with some limits."""
    found = {}

    def make(name, **limits):
        key = name, *limits.items()
        if key not in found:
            found[key] = Served(Service(trained(name), ServerLimits(**limits)))
        return found[key]

    yield make
    for each in found.values():
        each.service.worker.stop()
