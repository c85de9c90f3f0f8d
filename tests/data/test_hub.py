"""Data sets laid out as on the Hugging Face Hub; here in local folders, since tests have no network."""

import io
import json
import pickle
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES
from tests.columns import LABELS, PAIRS, asked_for

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Column
from plugformer.registry import Registry

REGISTRY = Registry.discover()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def folder(tmp_path: Path, **splits: list[dict[str, Any]]) -> str:
    place = tmp_path / "set"
    place.mkdir()
    for name, rows in splits.items():
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (place / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    return str(place)


def load(asked: Sequence[Column], **options: Any) -> datasets.DatasetDict:
    return asked_for(REGISTRY.create("data", "hub", **options).load(asked), asked)


def test_pairs_in_a_nested_column(tmp_path: Path) -> None:
    rows = [{"translation": {"de": f"wort {n}", "en": f"word {n}"}} for n in range(3)]
    columns = {"source": "translation.de", "target": "translation.en"}
    data = load(PAIRS, dataset=folder(tmp_path, train=rows, test=rows[:1]), columns=columns)
    assert data["train"][2] == {"source": "wort 2", "target": "word 2"}
    assert len(data["test"]) == 1


def test_labels_as_text(tmp_path: Path) -> None:
    rows = [{"text": "x", "label": "neg"}, {"text": "y", "label": "pos"}]
    data = load(LABELS, dataset=folder(tmp_path, train=rows), splits={"train": "train", "test_all": "train"})
    assert data["test_all"]["label"][:] == [0, 1]
    assert data["train"].features["label"].names == ["neg", "pos"]


@pytest.mark.parametrize("named", ["../secret.jsonl", "{here}/secret.jsonl", "./../secret.jsonl"])
@pytest.mark.parametrize("read", ["load", "stream", "version"])
def test_a_folder_names_no_file_outside(tmp_path: Path, named: str, read: str) -> None:
    (tmp_path / "secret.jsonl").write_text('{"text": "x", "label": "a"}\n')
    place = Path(folder(tmp_path, train=[{"text": "x", "label": "a"}]))
    configuration = {"config_name": "default", "data_files": named.format(here=tmp_path)}
    (place / "README.md").write_text(f"---\nconfigs: {json.dumps([configuration])}\n---\n")
    data = REGISTRY.create("data", "hub", dataset=str(place))
    with pytest.raises(ConfigurationError, match=r"secret\.jsonl, which is not in the folder"):
        getattr(data, read)(*[LABELS] * (read != "version"))
    (place / "README.md").write_text(
        "---\nconfigs:\n- {config_name: default, data_files: train.jsonl}\n---\n"
    )
    assert load(LABELS, dataset=str(place))["train"]["text"][:] == ["x"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"columns": {"text": "txet"}}, ConfigurationError, "no column 'txet' .did you mean 'text'"),
        ({"splits": {"train": "tarin"}}, ConfigurationError, "no split 'tarin' .did you mean 'train'"),
        ({}, DataError, "train, row 2: the text is empty"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    rows = [{"text": "x", "label": "a"}, {"text": "", "label": "b"}]
    with pytest.raises(error, match=message):
        load(LABELS, dataset=folder(tmp_path, train=rows), **options)


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot load '.*nowhere'"):
        load(LABELS, dataset=str(tmp_path / "nowhere"))


def test_the_version_follows_the_content(tmp_path: Path) -> None:
    place = folder(tmp_path, train=[{"source": "a", "target": "b"}])
    versions = [REGISTRY.create("data", "hub", dataset=place).version() for _ in range(2)]
    assert versions[0] == versions[1]
    (Path(place) / "train.jsonl").write_text('{"source": "a", "target": "c, longer"}\n')
    data = REGISTRY.create("data", "hub", dataset=place)
    assert data.version() != versions[0]
    assert data.load(PAIRS)["train"]["target"][:] == ["c, longer"]


class Planted:
    """Leaves a file where it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.place,)


@pytest.mark.parametrize("suffix", ["pth", "npy", "npz", "pickle", "pyd"])
def test_members_of_archives_are_not_unpickled(tmp_path: Path, suffix: str) -> None:
    marker, content = tmp_path / "unpickled", io.BytesIO()
    if suffix.startswith("np"):
        objects = np.array([Planted(marker)], dtype=object)
        np.savez(content, objects) if suffix == "npz" else np.save(content, objects)
    elif suffix == "pth":
        torch.save(Planted(marker), content)
    else:
        pickle.dump(Planted(marker), content)
    place = tmp_path / "set"
    place.mkdir()
    with tarfile.open(place / "train.tar", "w") as archive:
        for name, part in ((f"0.{suffix}", content.getvalue()), ("0.txt", b"a")):
            member = tarfile.TarInfo(name)
            member.size = len(part)
            archive.addfile(member, io.BytesIO(part))
    with pytest.raises(DataError):
        load(PAIRS, dataset=str(place), columns={"source": suffix, "target": "txt"})
    assert not marker.exists()


def test_names_of_formats_are_no_data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.pkl").write_bytes(pickle.dumps(Planted(tmp_path / "unpickled")))
    (tmp_path / "train.csv").write_text("source,target\na,b\n")
    for name in _PACKAGED_DATASETS_MODULES:
        with pytest.raises(ConfigurationError, match=f"dataset: .*'{name}' for files"):
            load(PAIRS, dataset=name)
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize("name", ["mine", "some/mine"])
def test_a_name_never_means_what_lies_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    Path(folder(tmp_path, train=[{"source": "a", "target": "b"}])).rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=rf"'{name}'.*write \./{name}"):
        load(PAIRS, dataset=name)
    assert load(PAIRS, dataset=f"./{name}")["train"]["source"][:] == ["a"]


@pytest.mark.parametrize("name", ["a/b/c", "hf://datasets/a", "", "-x", "a b", "C:x"])
def test_other_texts_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a name on the Hub"):
        REGISTRY.create("data", "hub", dataset=name)


def test_unknown_columns_are_found_before_anything_is_fetched() -> None:
    hub = REGISTRY.create("data", "hub", dataset="nowhere/nothing", columns={"text": "a", "txet": "b"})
    ((path, message),) = hub.problems(LABELS)
    assert path == ("columns", "txet")
    assert "unknown key 'txet' (did you mean 'text'?)" in message
