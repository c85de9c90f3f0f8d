"""Prepared examples are made once, and again when anything that decides them changes."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plugformer.cache import UNUSED_DAYS, cache_folder
from plugformer.configuration.task import DataBlock, Task
from plugformer.data.preparation import PreparedData, PreparedEntry, cache_key, prepare
from plugformer.data.processor import Processor
from plugformer.experiment import Experiment
from plugformer.registry import Registry
from plugformer_plugins.data.table import TabularData
from plugformer_plugins.tokenizer.word_level import Characters

REGISTRY = Registry.discover()
ROWS = "".join(f"{a}+{b}\t{a + b}\n" for a in range(1, 10) for b in range(1, 10))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUGFORMER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "sums.tsv"
    file.write_text(ROWS)
    return file


def task(file: Path, tokenizer: object = "characters", **data: Any) -> Task:
    return Task.model_validate(
        {
            "type": "sequence-to-sequence",
            "data": {
                "name": "table",
                "files": {"train": str(file)},
                "header": False,
                "split": {"validation": 0.1, "test": 0.1},
                **data,
            },
            "tokenizer": tokenizer,
            "model": {"architecture": "encoder-decoder", "head": "language_model"},
        }
    )


def prepared(file: Path, tokenizer: object = "characters", **data: Any) -> PreparedData:
    return prepare(Experiment.of(task(file, tokenizer, **data), REGISTRY))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names what is done anew: `read` and `trained`."""
    calls: list[str] = []
    for cls, method, word in ((TabularData, "load", "read"), (Characters, "train", "trained")):
        original: Callable[..., Any] = getattr(cls, method)

        def counted(self: Any, *given: Any, original: Any = original, word: str = word) -> Any:
            calls.append(word)
            return original(self, *given)

        monkeypatch.setattr(cls, method, counted)
    return calls


def content(data: PreparedData) -> list[object]:
    """Everything that a training reads."""
    batches = [split.batch(range(len(split))) for split in data.splits.values()]
    return [
        [(name, split.input(0), split.references(len(split) - 1)) for name, split in data.splits.items()],
        [(batch.source.ids.tolist(), batch.target.ids.tolist()) for batch in batches],
        data.hashes,
        data.lengths,
        data.processor.task_type.state,
        data.processor.source.encode(["12+7"]),
    ]


def entries() -> list[Path]:
    return [each for each in (cache_folder() / "examples").iterdir() if not each.name.startswith("scratch-")]


def test_the_second_start_reads_and_trains_nothing(file: Path, made: list[str]) -> None:
    first = prepared(file)
    assert made == ["read", "trained"]
    second = prepared(file)
    assert made == ["read", "trained"]
    assert content(second) == content(first)
    assert first.notices == second.notices == ()


def test_given_tokenizers_that_learned_something_else(file: Path, made: list[str]) -> None:
    task_type = prepared(file).processor.task_type
    other = Characters(min_frequency=1)
    other.train(["987654321+"])
    for _ in range(2):  # the second time from the cache
        data = prepare(Experiment.of(task(file), REGISTRY), Processor(other, other, task_type))
        assert other.decode(data.splits["test"].batch([0]).source.ids.tolist()) == [
            data.splits["test"].input(0)
        ]
    assert made == ["read", "trained", "trained", "read"]


@pytest.mark.parametrize(
    "changed",
    [
        {"split": {"validation": 0.1, "test": 0.1, "seed": 2}},
        {"columns": {"source": 2, "target": 1}},
        {"tokenizer": {"name": "characters", "min_frequency": 2}},
        {"tokenizer": {"name": "characters", "shared": False}},
        {"tokenizer": "whitespace"},
    ],
)
def test_what_decides_the_examples_makes_them_anew(
    file: Path, made: list[str], changed: dict[str, Any]
) -> None:
    prepared(file)
    prepared(file, **changed)
    assert made.count("read") == 2


class Letters(Characters):
    pass


def test_nothing_is_cached_with_a_class_of_the_session(file: Path, made: list[str]) -> None:
    experiment = Experiment.of(
        task(file, "letters"), REGISTRY.with_components({"tokenizer": {"letters": Letters}})
    )
    first, second = prepare(experiment), prepare(experiment)
    assert made.count("read") == 2
    assert cache_key(experiment, "") is None
    assert first.hashes == second.hashes
    prepare(experiment, first.processor)
    assert made.count("read") == 3


def test_new_content_of_the_same_size(file: Path, made: list[str]) -> None:
    prepared(file)
    before = file.stat().st_mtime_ns
    file.write_text(ROWS.replace("9+9\t18", "9+9\t81"))
    os.utime(file, ns=(before, before + 1))
    prepared(file)
    assert made.count("read") == 2


def test_files_of_tokenizers_count_by_content(file: Path, tmp_path: Path) -> None:
    """The vocabulary of a tokenizer that learns nothing may change too."""
    sizes = []
    for texts in (["1+1"], ["1+1=2"]):
        other = Characters()
        other.train(texts)
        other.save(tmp_path / "other.json")
        block = {"name": "pretrained", "path": str(tmp_path / "other.json")}
        sizes.append(prepared(file, block).processor.source.size)
    assert sizes[1] - sizes[0] == len("=2")


def test_new_code_makes_them_anew(file: Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(file)
    monkeypatch.setattr("plugformer.registry.source.source_hash", lambda entry: "edited")
    prepared(file)
    assert made.count("read") == 2


@pytest.mark.parametrize("changed", [{"length": {"max": 4, "over": "drop"}}, {"padding": 30}])
def test_lengths_and_padding_do_not(file: Path, made: list[str], changed: dict[str, Any]) -> None:
    prepared(file)
    assert prepared(file, **changed).lengths["train"].rows == 65
    assert made == ["read", "trained"]


@pytest.mark.parametrize("name", ["0.arrow", "entry.json"])
def test_a_damaged_entry_is_made_again(file: Path, made: list[str], name: str) -> None:
    first = content(prepared(file))
    (entry,) = entries()
    damaged = next(entry.glob(name))
    damaged.write_bytes(damaged.read_bytes()[:100])
    for _ in range(2):
        assert content(prepared(file)) == first
        assert made.count("read") == 2


def test_what_nobody_used_for_long_is_removed(file: Path, tmp_path: Path) -> None:
    prepared(file)
    (old,) = entries()
    used = shutil.copytree(old, old.with_name("used"))
    month = time.time() - (UNUSED_DAYS + 1) * 86400
    for entry in (old, used):
        os.utime(entry, (month, month))
    assert PreparedEntry.find("used") is not None  # counts as use
    prepared(file, split={"validation": 0.2})
    assert not old.exists()
    assert used.exists()


def test_skipped_rows_are_reported_at_each_start(file: Path, made: list[str]) -> None:
    file.write_text(f"{ROWS}no target\t\nonly one column\n")
    for _ in range(2):
        (notice,) = prepared(file, bad_rows="skip").notices
        assert notice.splitlines()[0] == "train: bad rows skipped: 2 of 83 (2.4%); the first:"
        assert f"{file}:82: the target is empty" in notice
    assert made.count("read") == 1


def test_examples_that_training_has_too_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("".join(f"source {row}\ttarget {row}\n" for row in range(20)))
    (tmp_path / "validation.tsv").write_text("source 3\ttarget 3\nsource 4\tother\nnew\tone\nnew\tone\n")
    files = {"train": str(tmp_path / "train.tsv"), "validation": str(tmp_path / "validation.tsv")}
    data = {"name": "table", "files": {**files, "test": files["train"]}, "header": False}
    both = task(tmp_path / "train.tsv").model_copy(update={"data": DataBlock.model_validate(data)})
    first, second = (prepare(Experiment.of(both, REGISTRY)).notices for _ in range(2))
    assert first == second
    validation, test = sorted(first, reverse=True)
    assert validation.startswith("validation: 1 of 4 examples (25.0%)")
    assert test.startswith("test: 20 of 20 examples (100.0%)")
