"""Runs that somebody has tampered with: refused by name of the file, nothing outside of them is touched."""

import json
import re
import shutil

import pytest
import yaml

from plugformer.errors import RunError
from plugformer.runs.directory import RunDirectory
from plugformer.runs.loading import load
from plugformer.runs.lockfile import task_hashes
from plugformer.runs.store import load_tensors, save_tensors
from plugformer.training.train import resume, train
from plugformer_inspection.plot import plot


@pytest.mark.parametrize("place", ["plots/index.html", "plots"])
def test_plot_writes_through_no_link(run_copy, tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "index.html").write_text("precious")
    link = run_copy / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / "index.html" if place.endswith("html") else outside)
    with pytest.raises(RunError, match=rf"{re.escape(str(link))} is a symbolic link"):
        plot(load(run_copy), run_copy / "plots", "1 2", str)
    assert [(each.name, each.read_text()) for each in outside.iterdir()] == [("index.html", "precious")]


@pytest.mark.parametrize("name", ["checkpoints", "metrics.jsonl"])
def test_resuming_writes_through_no_link(run_copy, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "step-00000001.safetensors").write_text("precious")
    file = run_copy / name
    if file.is_dir():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    file.symlink_to(outside if "." not in name else outside / "made")  # a link to nothing would be filled
    with pytest.raises(RunError, match="is a symbolic link"):
        resume(run_copy, notify=str)
    assert [path.name for path in outside.iterdir()] == ["step-00000001.safetensors"]


def test_exchanged_labels_are_noticed(tmp_path, registry):
    """They are names of classes like the others, but every answer would be another one."""
    labels = ["bad", "good"]
    task = {
        "type": "classification",
        "data": {"name": "memory"},
        "tokenizer": "characters",
        "model": {"architecture": "encoder-only", "width": 8, "heads": 1, "layers": 1, "head": "classifier"},
        "training": {"steps": 1},
    }
    rows = [{"text": f"{label} {number}", "label": label} for label in labels for number in range(2)]
    data = {"train": rows, "validation": rows}
    run = train(task, data=data, out=tmp_path / "run", registry=registry, notify=str).directory
    assert json.loads((run / "learned.json").read_text()) == labels
    (run / "learned.json").write_text(json.dumps(labels[::-1]))
    with pytest.raises(RunError, match=rf"{re.escape(str(run))}/learned\.json is damaged"):
        load(run, registry)


def edit_task(run, change):
    task = yaml.safe_load((run / "task.yaml").read_text())
    change(task)
    (run / "task.yaml").write_text(yaml.safe_dump(task, sort_keys=True))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda task: task["model"]["position"].update(base=10.0), "model"),
        (lambda task: task["tokenizer"].update(min_frequency=2), "tokenizer"),
        (lambda task: task["type"].update(name="masked-language-modelling"), "type"),
    ],
)
@pytest.mark.parametrize("act", [load, resume])
def test_settings_of_the_training_cannot_be_edited(run_copy, act, change, part):
    edit_task(run_copy, change)
    with pytest.raises(RunError, match=rf"{re.escape(str(run_copy))}/task\.yaml: {part}: .*restore the file"):
        act(run_copy)


def test_other_settings_of_a_run_can_be_edited(run_copy):
    def change(task):
        task["description"] = "mine"
        task["training"]["on_nonfinite"] = "skip"
        task["decoding"]["max_length"] = 3
        task["model"]["initialization"] = {"name": "normal"}

    edit_task(run_copy, change)
    assert len(load(run_copy).predict("1 2").output) <= 3


def test_the_folder_of_a_file_is_no_setting_of_the_training(run_copy):
    """A published run names its files alone."""
    before = [None, None]
    for number, path in enumerate(["/home/me/words/a.json", "words/a.json", "/home/me/words/b.json"]):
        edit_task(run_copy, lambda task, path=path: task["tokenizer"].update(path=path, run=f"/x/{path}"))
        before.append(task_hashes(RunDirectory(run_copy)))
        assert (before[-2] == before[-1]) is (number == 1)


def test_other_types_of_numbers_are_refused(run_copy):
    file = run_copy / "model.safetensors"
    save_tensors({name: tensor.half() for name, tensor in load_tensors(file).items()}, file)
    with pytest.raises(RunError, match=r"torch\.float16, the model expects .*float32"):
        load(run_copy)
