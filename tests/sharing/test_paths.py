"""No path of the author's machine is published."""

import json

import pytest
import yaml

import plugformer
from plugformer_sharing.paths import short_names, shortened
from plugformer_sharing.publishing import publication


def test_a_path_keeps_the_names_that_tell_it_from_others():
    paths = [
        "/home/me/couplets/train/in.txt",
        "/home/me/couplets/test/in.txt",
        "/mnt/x/out.txt",
        r"C:\Users\me\a.csv",
    ]
    short = short_names(paths)
    assert shortened(paths, short) == ["train/in.txt", "test/in.txt", "out.txt", "a.csv"]
    value = {"/mnt/x/out.txt": ["data.path=/mnt/x/out.txt after update 5", 3, None]}
    assert shortened(value, short) == {"out.txt": ["data.path=out.txt after update 5", 3, None]}


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
    assert shortened(text, short_names(text)) == text


@pytest.fixture
def with_paths(run_copy, tmp_path):
    """A run whose files name folders of this machine."""
    task, lock = (
        yaml.safe_load((run_copy / "task.yaml").read_text()),
        json.loads((run_copy / "lock.json").read_text()),
    )
    task["data"]["path"] = str(tmp_path / "secret" / "dates.tsv")
    task["data"]["labels"] = ["/home/garden", "/media/video"]
    task["decoding"] |= {"pattern": "/opt/[0-9]+", "max_length": 16}
    lock["other_runs"] = {"models": {str(tmp_path / "secret" / "first"): "0" * 64}}
    lock["changes"] = [f"data.path={tmp_path}/secret/dates.tsv after update 4"]
    (run_copy / "task.yaml").write_text(yaml.safe_dump(task, sort_keys=False))
    (run_copy / "lock.json").write_text(json.dumps(lock))
    return run_copy


def test_a_published_run_names_no_folder(with_paths, tmp_path, trained):
    files = publication(plugformer.load(with_paths), "hub:me/dates")
    texts = {name: text.decode() for name, text in files.files.items() if isinstance(text, bytes)}
    for name, text in texts.items():
        assert str(tmp_path) not in text, name
        assert str(trained.directory.parent) not in text, name
    assert yaml.safe_load(texts["task.yaml"])["data"]["path"] == "dates.tsv"
    assert yaml.safe_load(texts["task.yaml"])["decoding"]["pattern"] == "/opt/[0-9]+"
    assert yaml.safe_load(texts["task.yaml"])["data"]["labels"] == ["/home/garden", "/media/video"]
    lock = json.loads(texts["lock.json"])
    assert lock["other_runs"] == {"models": {"first": "0" * 64}}
    assert lock["changes"] == ["data.path=dates.tsv after update 4"]
    assert json.loads(texts["evaluation.json"])["test"]["run"] == "run"
    assert files.shortened[str(tmp_path / "secret" / "dates.tsv")] == "dates.tsv"


def test_a_file_without_paths_is_published_byte_by_byte(trained):
    files = publication(plugformer.load(trained.directory), "hub:me/dates")
    for name in ("task.yaml", "lock.json", "metrics.jsonl", "learned.json", "tokenizer-shared.json"):
        assert files.files[name] == (trained.directory / name).read_bytes()
