"""Every built-in component keeps its kind's contract, and every check of it runs."""

import json
from pathlib import Path

import pytest
from tests.testing.outcomes import outcomes

from plugformer.registry import Registry
from plugformer_plugins.metric.evaluate_module import Evaluate, load_script
from plugformer_plugins.tokenizer.subwords import BPE
from plugformer_testing.tokenizer import TRAINING

BUILT_IN = [
    f"{entry.kind}/{entry.name}"
    for entry in Registry.discover().entries()
    if entry.distribution == "plugformer"
    and not entry.name.startswith("initialize_from")
    and (entry.kind, entry.name) != ("engine", "transformers")
]
"""All but hooks that need another model, and an engine that answers nothing; they have tests of their own."""

SCRIPT = """
import evaluate
from datasets import Features, List, Value

class Same(evaluate.Metric):
    def _info(self):
        features = {"predictions": Value("string"), "references": List(Value("string"))}
        return evaluate.MetricInfo(description="", citation="", features=Features(features))

    def _compute(self, predictions, references):
        return {"share": sum(map(list.__contains__, references, predictions)) / len(predictions)}
"""
FILES = {
    "same/same.py": SCRIPT,
    "a": "one\ntwo\n",
    "b": "eins\nzwei\n",
    "words.txt": "# sent_id = 1\nA DET\ncat NOUN\n\nIt PRON\nrains VERB\n",
    "text.txt": "".join(f"It rains for {day} days.\n" for day in range(20)),
    "table.csv": "text,label,source,target\ngood,yes,a,b\nbad,no,c,d\n",
}
ROWS = [
    {"text": "good", "label": "1", "source": "a", "target": "b"},
    {"text": "bad", "label": "0", "source": "c", "target": "d"},
]
SAVED = ("tokenizer/pretrained", "tokenizer/transformers")
GENERATED = {"size": 100, "held_out": 20}


@pytest.fixture
def options(tmp_path: Path) -> dict[str, dict[str, object]]:
    """Options of the components that need some, with the files that they name, or would take long."""
    rows = "".join(f"{json.dumps(row)}\n" for row in ROWS)
    for name, text in {**FILES, "data/train.jsonl": rows, "data/test.jsonl": rows}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = {name: str(tmp_path / name) for name in ("a", "b", "words.txt", "text.txt", "table.csv")}
    text = {"files": {"train": files["text.txt"]}, "examples": "line"}
    return {
        "constraint/pattern": {"expression": "[a-z]+( [a-z]+)*"},
        "callback/freeze": {"parameters": ["encoder"]},
        "callback/track": {"to": ["tensorboard"]},
        "parametrization/mup": {"base_width": 32},
        "metric/evaluate": {"metric": "same", "resamples": 20},
        **{name: {"path": str(tmp_path / "tokenizer.json")} for name in SAVED},
        "data/conll": {"files": {"train": files["words.txt"]}, "columns": {"words": 1, "tags": 2}},
        "data/text": {**text, "ends": {"validation": 0.2, "test": 0.2}},
        "data/dates": {"size": 300},
        "data/hub": {"dataset": str(tmp_path / "data")},
        "data/lines": {"files": {"train": {"source": files["a"], "target": files["b"]}}},
        "data/table": {"files": {"train": files["table.csv"]}, "labels": ["no", "yes"]},
        **dict.fromkeys(("data/brackets", "data/copying", "data/names"), GENERATED),
    }


@pytest.mark.parametrize("path", BUILT_IN)
def test_keeps_its_contract(path, options, registry, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    if path == "metric/evaluate":  # its names mean the Hub
        script = tmp_path / "same" / "same.py"
        monkeypatch.setattr(Evaluate, "load", lambda self, cache: load_script(script, cache))
    if path in SAVED:
        tokenizer = BPE(size=400)
        tokenizer.train(TRAINING)
        tokenizer.save(tmp_path / "tokenizer.json")
    found = outcomes(path, registry=registry, options=options.get(path))
    failures = dict(registry.find(*path.split("/")).expected_failures)
    assert {name for name, outcome in found.items() if outcome != "passed"} == failures.keys(), found
