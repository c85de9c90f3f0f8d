"""Runs of earlier versions load, answer and resume as if they had been made today."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
import yaml

import plugformer
from plugformer.configuration.overrides import read_overrides
from plugformer.documents import plain
from plugformer.runs.files import write_checksums
from plugformer.runs.migration import migrated_task
from plugformer.runs.weights import load_tensors, save_tensors
from plugformer.training.train import resume

TEXTS = ["2 May 1999", "11.12.2013"]
NORM = re.compile(r"residual\.norms\.(\w+)\.")


def as_before(run: Path) -> None:
    """Rewrites a run as it was: with the keys of that time, and a `t5` that knew no place."""
    task = yaml.safe_load((run / "task.yaml").read_text())
    model, training = task["model"], task["training"]
    model["hidden_width"] = model.pop("ffn_width")
    training["stream"], training["accumulation"] = (
        training.pop("replicate"),
        training.pop("batches_per_update"),
    )
    model["placement"] = model.pop("residual")["name"]
    model["initialization"] = model["initialization"]["name"]
    model["position"].pop("bidirectional", None)
    (run / "task.yaml").write_text(yaml.dump(task))
    for file in run.rglob("model.safetensors"):
        tensors = {NORM.sub(r"\1_residual.norm.", name): each for name, each in load_tensors(file).items()}
        assert sum("_residual.norm." in name for name in tensors) == 5 * 2, "two norms, then three"
        save_tensors(tensors, file)
    for sums in run.rglob("checksums.json"):
        sums.unlink()
        write_checksums(sums.parent)
    lock = json.loads((run / "lock.json").read_text())
    new = ("residual/", "initialization/")
    lock["components"] = {path: each for path, each in lock["components"].items() if not path.startswith(new)}
    (run / "lock.json").write_text(json.dumps(lock))


def test_a_run_of_before_answers_as_it_did():
    """Made by commit 4f3a6f9, with `placement: post`, `position: t5` and `initialization: xavier`."""
    model = plugformer.load(Path(__file__).parent / "made_before")
    found = [(each.output, each.score) for each in model.predict(TEXTS)]
    expected = [("------------", -22.68868637084961), ("------------", -22.78294801712036)]
    assert [output for output, _ in found] == [output for output, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-4)


@pytest.fixture(scope="module", params=["pre", "post"])
def runs(request, train_tiny, tmp_path_factory):
    """A run, and the same as it was before."""
    folder = tmp_path_factory.mktemp("runs")
    settings = [
        f"model.residual={request.param}",
        "model.position={name: t5, bidirectional: true}",
        "training.batches_per_update=2",
        "training.replicate=3",
    ]
    train_tiny(folder / "now", *settings, "training.keep_checkpoints=3")
    shutil.copytree(folder / "now", folder / "before")
    as_before(folder / "before")
    return folder / "now", folder / "before"


def test_it_answers_the_same(runs):
    now, before = (plugformer.load(run).predict(TEXTS) for run in runs)
    assert [(each.output, each.score) for each in now] == [(each.output, each.score) for each in before]


def test_it_resumes_to_the_same_end(runs, tmp_path):
    now, before = runs
    copy = Path(shutil.copytree(before, tmp_path / "run"))
    newest = max((copy / "checkpoints").iterdir())
    shutil.rmtree(newest)
    resume(copy)
    one, other = (
        load_tensors(run / "checkpoints" / newest.name / "model.safetensors") for run in (now, copy)
    )
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def task(*settings: str) -> dict:
    return plain(migrated_task(read_overrides(settings)))


def test_placement_becomes_residual():
    assert task("model.placement=post", "model.width=8") == {"model": {"residual": "post", "width": 8}}


def test_every_renamed_key_is_read_under_its_new_name():
    found = task(
        "model.hidden_width=16",
        "model.width=8",
        "training.stream=3",
        "training.accumulation=2",
        "training.seed=5",
    )
    assert found == {
        "model": {"ffn_width": 16, "width": 8},
        "training": {"replicate": 3, "batches_per_update": 2, "seed": 5},
    }


def test_buckets_go_on_meaning_what_they_did():
    """Wherever `t5` stood: in a decoder it had half of its buckets for tokens ahead."""
    t5 = {"name": "t5", "buckets": 8}
    found = task(
        "model.placement=pre",
        "model.position={name: t5, buckets: 8}",
        "model.decoder.position={name: 'plugformer:t5', buckets: 8}",
        "model.decoder.cross_attention.position={name: t5, buckets: 8}",
        "model.encoder.position={name: rope, base: 10}",
    )["model"]
    assert (
        found["position"] == found["decoder"]["cross_attention"]["position"] == {**t5, "bidirectional": True}
    )
    assert found["decoder"]["position"] == {"name": "plugformer:t5", "buckets": 8, "bidirectional": True}
    assert found["encoder"]["position"] == {"name": "rope", "base": 10}


@pytest.mark.parametrize(
    "settings",
    [
        ["model.residual=pre", "model.position={name: t5}"],
        ["model.placement=pre", "model.residual=pre"],
        ["model.placement=pre", "model.residual=pre", "model.position=t5"],
        ["training.stream=1", "training.replicate=2"],
        ["model=3"],
        ["data=dates"],
    ],
)
def test_what_is_of_today_or_damaged_stays(settings):
    assert task(*settings) == plain(read_overrides(settings))
