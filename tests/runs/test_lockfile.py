"""The lock: what a run was made of, and the refusal to go on with something else."""

import json
import re
import sys
from pathlib import Path

import pytest

from plugformer.errors import RunError
from plugformer.experiment import Experiment
from plugformer.registry import Kind
from plugformer.runs.loading import load
from plugformer.runs.lockfile import components, make_lockfile, refuse_changes
from plugformer.training.train import resume

ROOT = Path(__file__).parents[2]


def edit(run, change):
    path = run / "lock.json"
    lock = json.loads(path.read_text())
    change(lock)
    path.write_text(json.dumps(lock))


def test_what_is_locked(trained):
    lock = json.loads((trained.directory / "lock.json").read_text())
    assert lock["versions"].keys() == {"plugformer", "python", "torch"}
    assert lock["components"]["attention/mha"].keys() == {"distribution", "version", "source"}
    assert {"data/dates", "tokenizer/characters", "head/language_model", "position/none"} <= lock[
        "components"
    ].keys()
    assert lock["data"].keys() == {"train", "validation", "test"}


def test_a_changed_component_is_refused_with_the_difference(run_copy):
    def change(lock):
        lock["components"]["attention/mha"] |= {"version": "0.0.1", "source": "0" * 64}
        lock["components"]["attention/lost"] = lock["components"]["attention/mha"]

    edit(run_copy, change)
    with pytest.raises(RunError, match="have changed since the run began") as caught:
        resume(run_copy, notify=str)
    _, lost, changed, advice = str(caught.value).splitlines()
    assert re.fullmatch(r"  attention/lost: plugformer 0\.0\.1 \(0{12}\) -> nothing", lost)
    assert re.fullmatch(
        r"  attention/mha: plugformer 0\.0\.1 \(0{12}\) -> plugformer \S+ \(\w{12}\)", changed
    )
    assert "--allow-changes" in advice


def test_a_changed_component_may_be_allowed_and_is_put_on_record(run_copy):
    edit(run_copy, lambda lock: lock["components"]["attention/mha"].update(version="0.0.1"))
    for _ in range(2):  # the second time nothing is left to allow
        notices = []
        resume(run_copy, allow_changes=True, notify=notices.append)
        lock = json.loads((run_copy / "lock.json").read_text())
        assert len(lock["changes"]) == 1
        assert lock["changes"][0].startswith("plugformer 0.0.1 -> plugformer ")
        assert lock["components"]["attention/mha"]["version"] != "0.0.1"
    assert not any("other components" in notice for notice in notices)


def test_changed_data_are_refused_whatever_is_allowed(run_copy):
    edit(run_copy, lambda lock: lock["data"].update(train="0" * 64))
    with pytest.raises(RunError, match=r"\n  train: 0{12} -> \w{12}\n.*start a new run$"):
        resume(run_copy, allow_changes=True, notify=str)


def test_components_of_every_place(tiny_task):
    task = tiny_task(
        "model.encoder.per_layer={0: {attention: mqa}}",
        "model.decoder.feed_forward=relu",
        "model.decoder.cross_attention={attention: gqa, position: rope}",
        "model.decoder.norm=rms_norm",
        "model.encoder.residual=parallel",
        "model.initialization=normal",
        "training.callbacks=[ema]",
    )
    expected = {
        (Kind.ATTENTION, "mqa"),
        (Kind.FEED_FORWARD, "relu"),
        (Kind.ATTENTION, "gqa"),
        (Kind.POSITION, "rope"),
        (Kind.NORM, "rms_norm"),
        (Kind.RESIDUAL, "pre"),
        (Kind.RESIDUAL, "parallel"),
        (Kind.INITIALIZATION, "normal"),
        (Kind.SCHEDULE, "constant"),
        (Kind.METRIC, "exact_match"),
        (Kind.CALLBACK, "ema"),
    }
    assert expected <= components(task)


def test_installed_callbacks_do_not_belong_to_the_lock(registry, tmp_path, monkeypatch, trained):
    """A plugin with hooks that is installed while a run waits changes nothing of it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "registry.yaml"
    file.write_text("callbacks: [plug_watching]")
    (tmp_path / "plug_watching.py").write_text("")
    task, registry = load(trained.directory, registry).task, registry.with_local(file)
    assert [entry.target for entry in registry.entries("callbacks") if entry.file] == ["plug_watching"]
    before = json.loads((trained.directory / "lock.json").read_text())
    assert refuse_changes(before, make_lockfile(Experiment.of(task, registry), before["data"])) == []
