"""Trackers know what `metrics.jsonl` says, read with the readers of their own libraries."""

import json
import logging
import struct

import psutil
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.training.interrupted import Killer, logged, tensors

import plugformer
from plugformer.errors import ConfigurationError
from plugformer.runs import RunDirectory, load_tensors
from plugformer_cli.main import main
from plugformer_plugins.callback.trackers import TRACKERS

NOT_TOLD = {"event", "step", "epoch", "seconds", "best"}


def hooks(*names, directory):
    return f"training.callbacks=[{{name: track, to: [{', '.join(names)}], directory: {directory}}}]"


def expected(run):
    """Returns the points that `metrics.jsonl` and `evaluation.json` have, by the name of the metric."""
    points, directory = {}, RunDirectory(run)
    for record in directory.logged():
        for name, value in record.items():
            if name not in NOT_TOLD and value is not None:
                points.setdefault(f"{record['event']}/{name}", []).append((record["step"], value))
    last = max(record["step"] for record in directory.logged())
    for split, report in directory.evaluations().items():
        for name, score in report["metrics"].items():
            for end, key in (("", "value"), ("_low", "low"), ("_high", "high")):
                points[f"{split}/{name}{end}"] = [(last, score[key])]
    return points


def name_of(run):
    return json.loads((run / "tracking.json").read_text())["name"]


def in_tensorboard(folder):
    """Returns the points in event files."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def in_mlflow(directory, run):
    """Returns the points and the parameters in a store of files."""
    from mlflow import MlflowClient

    client = MlflowClient((directory / "mlruns").as_uri())
    identifier = json.loads((run / "tracking.json").read_text())["mlflow"]["run"]
    data = client.get_run(identifier).data
    points = {
        key: [(point.step, point.value) for point in client.get_metric_history(identifier, key)]
        for key in data.metrics
    }
    return points, data.params


def in_wandb(file):
    """Returns the points and the settings in the file of an offline run, and the identifier of the run.

    It is a log of LevelDB with a header of seven bytes, whose records are wandb's own messages.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, parts, records = file.read_bytes(), 7, b"", []
    while place + 7 <= len(content):
        room = 32768 - place % 32768
        if room < 7:
            place += room
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part of it
            record, parts = Record(), b""
            record.ParseFromString(content[place - length : place] if kind == 1 else parts)
            records.append(record)
    points, settings, identifier = {}, {}, ""
    for record in records:
        kind = record.WhichOneof("record_type")
        if kind == "run":
            identifier = record.run.run_id
            settings |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        if kind == "config":
            settings |= {
                item.key or "/".join(item.nested_key): json.loads(item.value_json)
                for item in record.config.update
            }
        if kind == "history":
            row = {
                item.key or "/".join(item.nested_key): json.loads(item.value_json)
                for item in record.history.item
            }
            for key, value in row.items():
                if not key.startswith("_"):
                    points.setdefault(key, []).append((row["_step"], value))
    return points, settings, identifier


@pytest.fixture(scope="module")
def followed(train_tiny, tmp_path_factory):
    """A training that all trackers have followed, and the folder of their files."""
    folder = tmp_path_factory.mktemp("followed")
    every = hooks("tensorboard", "mlflow", "wandb", directory=folder / "tracking")
    train_tiny(folder / "run", every, "training.keep_checkpoints=2")
    return folder / "run", folder / "tracking"


def test_tensorboard_reads_every_point(followed):
    run, directory = followed
    found = in_tensorboard(directory / "tensorboard/plugformer" / name_of(run))
    assert (
        found.keys()
        == expected(run).keys()
        >= {"training/loss", "validation/exact_match", "test/exact_match"}
    )
    for key, points in expected(run).items():
        assert [step for step, _ in found[key]] == [step for step, _ in points]
        assert [value for _, value in found[key]] == pytest.approx([value for _, value in points], rel=1e-6)


def test_mlflow_reads_every_point_and_the_settings(followed):
    run, directory = followed
    points, settings = in_mlflow(directory, run)
    assert points == expected(run)
    assert (settings["model.attention.name"], settings["training.steps"]) == ("mha", "10")


def test_the_offline_run_of_wandb_has_every_point_and_the_settings(followed):
    run, directory = followed
    (file,) = (directory / "wandb").glob("offline-run-*/run-*.wandb")
    points, settings, identifier = in_wandb(file)
    assert points == expected(run)
    assert (settings["model.attention.name"], settings["training.steps"]) == ("mha", 10)
    assert identifier == name_of(run)


def test_numbers_are_those_of_a_training_without_trackers(followed, trained):
    run, _ = followed
    mine, yours = tensors(run), tensors(trained.directory)  # threads of trackers draw from Python's generator
    assert mine.keys() == yours.keys()
    for file, found in mine.items():
        for name in (name for name in found if "python" not in name):
            assert torch.equal(found[name], yours[file][name]), (file, name)
    assert logged(run) == logged(trained.directory)


def test_no_process_is_left(followed):
    names = [child.name() for child in psutil.Process().children(recursive=True)]
    assert [name for name in names if "wandb" in name or "gpu_stats" in name] == []


def test_a_resumed_training_continues_the_same_runs(train_tiny, tmp_path):
    run, directory = tmp_path / "run", tmp_path / "tracking"
    with pytest.raises(KeyboardInterrupt):
        train_tiny(run, hooks("tensorboard", "mlflow", directory=directory), callbacks=[Killer(6)])
    before = json.loads((run / "tracking.json").read_text())
    assert before["tensorboard"]["told"]["training"] == 6
    plugformer.resume(run, notify=str)
    after = json.loads((run / "tracking.json").read_text())
    assert (after["name"], after["mlflow"]["run"]) == (before["name"], before["mlflow"]["run"])
    points, _ = in_mlflow(directory, run)
    steps = {key: [step for step, _ in values] for key, values in expected(run).items()}
    assert steps["training/loss"] == list(range(1, 11))
    assert {key: [step for step, _ in values] for key, values in points.items()} == steps
    found = in_tensorboard(directory / "tensorboard/plugformer" / after["name"])
    assert {key: [step for step, _ in values] for key, values in found.items()} == steps


def test_a_failing_tracker_warns_once_and_is_told_later(
    train_tiny, trained, tmp_path, monkeypatch, caplog, capsys
):
    def fail(*_, **__):
        raise OSError("no room")

    run = tmp_path / "run"
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "plugformer_plugins"):
        patch.setattr(TRACKERS["tensorboard"], "log", fail)
        train_tiny(run, hooks("tensorboard", directory=tmp_path / "tracking"), "training.keep_checkpoints=2")
    (warning,) = (record.getMessage() for record in caplog.records if "switched off" in record.getMessage())
    assert "the tracker tensorboard is switched off: OSError: no room" in warning
    assert load_tensors(run / "model.safetensors")["head.weight"].equal(
        load_tensors(trained.directory / "model.safetensors")["head.weight"]
    )
    for _ in range(2):  # the second time there is nothing left to tell
        with pytest.raises(SystemExit):
            main(["track", str(run), "--to", "tensorboard"])
        folder = tmp_path / "tracking/tensorboard/plugformer" / name_of(run)
        assert {key: len(points) for key, points in in_tensorboard(folder).items()} == {
            key: len(points) for key, points in expected(run).items()
        }
    assert str(tmp_path / "tracking") in capsys.readouterr().out


def test_a_run_without_trackers_is_told_elsewhere(trained, tmp_path, capsys):
    for _ in range(2):
        with pytest.raises(SystemExit) as left:
            main(["track", str(trained.directory), "--to", "tensorboard", "--out", str(tmp_path), "--json"])
        assert left.value.code == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed == {"run": str(trained.directory), "trackers": ["tensorboard"], "directory": str(tmp_path)}
    (folder,) = (tmp_path / "tensorboard/plugformer").iterdir()
    found, points = in_tensorboard(folder), expected(trained.directory)
    assert {key: [step for step, _ in values] for key, values in found.items()} == {
        key: [step for step, _ in values] for key, values in points.items()
    }
    assert not (trained.directory / "tracking.json").exists()


def test_an_unknown_tracker_is_a_mistake_with_its_place(train_tiny, tmp_path, trained, capsys):
    with pytest.raises(ConfigurationError, match=r"training\.callbacks.*to.*tensorbord"):
        train_tiny(tmp_path / "run", hooks("tensorbord", directory=tmp_path))
    with pytest.raises(SystemExit) as left:
        main(["track", str(trained.directory), "--to", "tensorbord"])
    assert left.value.code == 2
    assert "tensorbord" in capsys.readouterr().err
