"""Every built-in component keeps its kind's contract, and every check of it runs."""

import json
from functools import partial
from pathlib import Path

import evaluate
import pytest

from plugformer.registry import Registry
from plugformer_plugins.metric.evaluate_module import Evaluate
from plugformer_plugins.tokenizer.subwords import BPE
from plugformer_testing.runner import report
from plugformer_testing.subject import Subject

BUILT_IN = [
    f"{entry.kind}/{entry.name}"
    for entry in Registry.discover().entries()
    if entry.distribution == "plugformer" and entry.name != "initialize_from"
]
"""All but a hook that needs a run of the same model: `tests/hooks/test_initialize_from.py` tests it."""


@pytest.fixture
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    """Options of the components that need some, with the files that they name, or would take long."""
    make = {
        "hook/freeze": lambda folder: {"parameters": ["encoder"]},
        "metric/evaluate": evaluate_options,
        "tokenizer/pretrained": pretrained_options,
        "data/conll": conll_options,
        "data/text": text_options,
        "data/brackets": lambda folder: {"size": 100, "held_out": 20},
        "data/copying": lambda folder: {"size": 100, "held_out": 20},
        "data/dates": lambda folder: {"size": 300},
        "data/hub": hub_options,
        "data/lines": lines_options,
        "data/names": lambda folder: {"size": 100, "held_out": 20},
        "data/table": table_options,
    }
    path = request.getfixturevalue("path")
    if path == "metric/evaluate":  # its names mean the Hub
        stored = partial(evaluate.load, str(tmp_path / "same"), keep_in_memory=True)
        request.getfixturevalue("monkeypatch").setattr(
            Evaluate, "load", lambda self, cache: stored(cache_dir=str(cache))
        )
    return make[path](tmp_path) if path in make else {}


def evaluate_options(folder: Path) -> dict[str, object]:
    script = folder / "same" / "same.py"
    script.parent.mkdir()
    script.write_text(
        "import evaluate\nfrom datasets import Features, List, Value\n\n\n"
        "class Same(evaluate.Metric):\n"
        "    def _info(self):\n"
        "        features = {'predictions': Value('string'), 'references': List(Value('string'))}\n"
        "        return evaluate.MetricInfo(description='', citation='', features=Features(features))\n\n"
        "    def _compute(self, predictions, references):\n"
        "        return {'share': sum(map(list.__contains__, references, predictions)) / len(predictions)}\n"
    )
    return {"metric": "same", "resamples": 20}


def pretrained_options(folder: Path) -> dict[str, object]:
    from plugformer_testing.tokenizer import TRAINING

    tokenizer = BPE(size=400)
    tokenizer.train(TRAINING)
    tokenizer.save(folder / "tokenizer.json")
    return {"path": str(folder / "tokenizer.json")}


def hub_options(folder: Path) -> dict[str, object]:
    data = folder / "data"
    data.mkdir()
    rows = [
        {"text": "good", "label": "1", "source": "a", "target": "b"},
        {"text": "bad", "label": "0", "source": "c", "target": "d"},
    ]
    for split in ("train", "test"):
        (data / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return {"dataset": str(data)}


def lines_options(folder: Path) -> dict[str, object]:
    (folder / "a").write_text("one\ntwo\n")
    (folder / "b").write_text("eins\nzwei\n")
    return {"files": {"train": {"source": str(folder / "a"), "target": str(folder / "b")}}}


def conll_options(folder: Path) -> dict[str, object]:
    (folder / "train.txt").write_text("# sent_id = 1\nA DET\ncat NOUN\n\nIt PRON\nrains VERB\n")
    return {"files": {"train": str(folder / "train.txt")}, "columns": {"words": 1, "tags": 2}}


def text_options(folder: Path) -> dict[str, object]:
    (folder / "train.txt").write_text("".join(f"It rains for {day} days.\n" for day in range(20)))
    files = {"train": str(folder / "train.txt")}
    return {"files": files, "examples": "line", "ends": {"validation": 0.2, "test": 0.2}}


def table_options(folder: Path) -> dict[str, object]:
    (folder / "train.csv").write_text("text,label,source,target\ngood,yes,a,b\nbad,no,c,d\n")
    return {"files": {"train": str(folder / "train.csv")}, "labels": ["no", "yes"]}


@pytest.mark.parametrize("path", BUILT_IN)
def test_keeps_its_contract(path, options, registry, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    found = report(Subject.of(path, registry, options=options))
    checks = found.counts["checks"]
    assert found.summary() == f"{checks} of {checks} checks passed", str(found)
