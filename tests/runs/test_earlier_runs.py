"""Runs of earlier versions: types and architectures were words then, and classes stood in labels.json."""

import json

import pytest
import torch

from plugformer.runs.loading import load
from plugformer.runs.weights import load_tensors
from plugformer.training.train import resume, train

TASK = """\
type: classification
data:
  name: table
  files: {train: texts.csv}
  columns: {text: text, label: label}
  split: {validation: 8, by: order}
tokenizer: characters
model: {architecture: encoder-only, width: 8, heads: 2, layers: 1, ffn_width: 8, head: classifier}
training: {steps: 4, batch_size: 8, evaluate_every: 2, keep_checkpoints: 5}
evaluation: {metrics: [accuracy]}
"""
TEXTS = ["aaa", "bbbb", "ab"]


@pytest.fixture(scope="module")
def run(registry, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    rows = [f"{'ab'[number % 2] * (1 + number % 7)},{'xy'[number % 2]}" for number in range(40)]
    (folder / "texts.csv").write_text("\n".join(["text,label", *rows]))
    (folder / "task.yaml").write_text(TASK)
    train(str(folder / "task.yaml"), out=folder / "run", registry=registry, notify=str)
    return folder / "run"


@pytest.fixture
def earlier(run_as_written_earlier, run, tmp_path):
    return run_as_written_earlier(run, tmp_path / "earlier")


@pytest.fixture
def run_as_written_earlier():
    """Copies a run, with the files that versions without these kinds wrote."""
    import shutil

    def written(run, folder):
        shutil.copytree(run, folder)
        (folder / "learned.json").rename(folder / "labels.json")
        lock = json.loads((folder / "lock.json").read_text())
        for component in ("task_type/classification", "architecture/encoder-only"):
            del lock["components"][component]
        (folder / "lock.json").write_text(json.dumps(lock))
        lines = (folder / "task.yaml").read_text().splitlines()
        task = [
            line for line in lines if not line.startswith(("type", "  name: class", "  inputs", "  - text"))
        ]
        (folder / "task.yaml").write_text("\n".join(["type: classification", *task]))
        return folder

    return written


def test_it_answers_as_it_did(run, earlier):
    assert not (earlier / "learned.json").exists()
    assert load(earlier).predict(TEXTS) == load(run).predict(TEXTS)
    assert load(earlier).vocabularies.learned == ["x", "y"]
    assert load(earlier).evaluate("validation").metrics == load(run).evaluate("validation").metrics


def test_it_goes_on_exactly(run, earlier):
    last = earlier / "checkpoints" / "step-00000004"
    expected = load_tensors(last / "model.safetensors")
    for file in last.iterdir():
        file.unlink()
    last.rmdir()
    resume(earlier, allow_changes=True, notify=str)
    found = load_tensors(last / "model.safetensors")
    assert all(torch.equal(found[name], expected[name]) for name in expected)
