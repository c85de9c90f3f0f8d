"""No path of the author's machine is published."""

import json
from pathlib import Path

import pytest
import yaml

import plugformer
from plugformer.errors import RunError
from plugformer_sharing.front_matter import Statements
from plugformer_sharing.paths import PathShortener
from plugformer_sharing.publishing import publication


def test_a_path_keeps_the_names_that_tell_it_from_others():
    paths = [
        "/home/me/couplets/train/in.txt",
        "/home/me/couplets/test/in.txt",
        "/mnt/x/out.txt",
        r"C:\Users\me\a.csv",
    ]
    short = PathShortener.of(paths)
    assert short.value(paths) == ["train/in.txt", "test/in.txt", "out.txt", "a.csv"]
    value = {"/mnt/x/out.txt": ["data.path=/mnt/x/out.txt after update 5", 3, None]}
    assert short.value(value) == {"out.txt": ["data.path=out.txt after update 5", 3, None]}


@pytest.mark.parametrize(
    "text",
    [
        "and/or",
        "https://example.org/home/me/x",
        "1/2/99",
        "/",
        "a / b",
        "/sci/tech",
        "s/he",
        "~/data/x.txt",
        "file.txt",
    ],
)
def test_other_texts_stay(text):
    assert PathShortener.of([text]).value(text) == text


@pytest.fixture
def with_paths(run_copy, tmp_path):
    """A run whose files name folders of this machine."""
    task, lock = (
        yaml.safe_load((run_copy / "task.yaml").read_text()),
        json.loads((run_copy / "lock.json").read_text()),
    )
    task["data"]["path"] = str(tmp_path / "secret" / "dates.tsv")
    task["decoding"] |= {"pattern": "/opt/[0-9]+", "max_length": 16}
    lock["other_runs"] = {"models": {str(tmp_path / "secret" / "first"): "0" * 64}}
    lock["changes"] = [f"data.path={tmp_path}/secret/dates.tsv after update 4"]
    (run_copy / "task.yaml").write_text(yaml.safe_dump(task, sort_keys=False))
    (run_copy / "lock.json").write_text(json.dumps(lock))
    return run_copy


def test_a_published_run_names_no_folder(with_paths, tmp_path, trained):
    files = publication(plugformer.load(with_paths), Statements(), "hub:me/dates")
    for name, text in files.texts.items():
        assert str(tmp_path) not in text, name
        assert str(trained.directory.parent) not in text, name
    assert yaml.safe_load(files.texts["task.yaml"])["data"]["path"] == "dates.tsv"
    assert yaml.safe_load(files.texts["task.yaml"])["decoding"]["pattern"] == "/opt/[0-9]+"
    lock = json.loads(files.texts["lock.json"])
    assert lock["other_runs"] == {"models": {"first": "0" * 64}}
    assert lock["changes"] == ["data.path=dates.tsv after update 4"]
    assert json.loads(files.texts["evaluation.json"])["test"]["run"] == "run"
    assert files.shortened[str(tmp_path / "secret" / "dates.tsv")] == "dates.tsv"


def test_a_file_without_paths_is_published_byte_by_byte(trained):
    files = publication(plugformer.load(trained.directory), Statements(), "hub:me/dates")
    for name in ("task.yaml", "lock.json", "metrics.jsonl", "learned.json", "tokenizer-shared.json"):
        assert files.texts[name] == (trained.directory / name).read_text(encoding="utf-8")


def test_a_vocabulary_is_not_changed_but_refused(trained, monkeypatch):
    trained_model = plugformer.load(trained.directory)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/someone"))
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: '{"a": 1,\n"/home/someone/x": 2}')
    monkeypatch.setattr("plugformer_sharing.publishing._REWRITTEN", ())
    with pytest.raises(RunError, match=r"learned\.json:2 names /home/someone/"):
        publication(trained_model, Statements(), "hub:me/dates")
