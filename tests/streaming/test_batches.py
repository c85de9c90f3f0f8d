"""Streamed examples: shares, blocks, places, bad rows; the plain lists that made the files are the truth."""

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import datasets
import pytest
from tests.columns import LABELS

from plugformer.configuration.task import Task
from plugformer.data.preparation import PreparedData, prepare
from plugformer.distributed import SINGLE_PROCESS
from plugformer.errors import ConfigurationError, DataError
from plugformer.experiment import Experiment
from plugformer.registry import Registry
from plugformer.training.stream import ladder_of
from plugformer.training.streamed import StreamedBatches, StreamPosition

REGISTRY = Registry.discover()
Made = list[tuple[str, str]]


def sentences(count: int, word: str) -> Made:
    draw = random.Random(word)  # noqa: S311 (examples, not secrets)
    lines = [" ".join([f"{word}{number}", *"x" * draw.randrange(6)]) for number in range(count)]
    return [(line, line.replace(" x", " y")) for line in lines]


def write(folder: Path, name: str, pairs: Made) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    for side, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
        (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {"source": str(folder / f"{name}.de"), "target": str(folder / f"{name}.en")}


def task_of(train: list[dict[str, str]], validation: dict[str, str], **settings: Any) -> Task:
    """A task that streams; `data` and `training` add to their blocks."""
    data = {"name": "lines", "files": {"train": train, "validation": validation}, "streaming": {"buffer": 32}}
    return Task.model_validate(
        {
            "type": "sequence-to-sequence",
            "data": data | settings.pop("data", {}),
            "tokenizer": "whitespace",
            "model": {"architecture": "encoder-decoder", "head": "language_model", "max_length": 40},
            "training": {"steps": 10, "batch_tokens": 60} | settings.pop("training", {}),
            **settings,
        }
    )


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Makes a task from files with so many pairs each."""

    def made(*counts: int, **settings: Any) -> tuple[Task, Made]:
        parts = [sentences(count, "abcdefgh"[number]) for number, count in enumerate(counts)]
        files = [write(tmp_path, f"train{number}", pairs) for number, pairs in enumerate(parts)]
        task = task_of(files, write(tmp_path, "validation", sentences(9, "v")), **settings)
        return task, [pair for part in parts for pair in part]

    return made


@pytest.fixture
def stream() -> Iterator[Any]:
    """Makes the batches of a task, with so many shares."""
    made = []

    def make_stream(data: PreparedData, task: Task, shares: int = 1) -> StreamedBatches:
        examples = data.streamed
        assert examples is not None
        settings = task.training.model_copy(update={"batches_per_update": shares})
        made.append(StreamedBatches(examples, ladder_of(settings, examples.sample), settings, SINGLE_PROCESS))
        return made[-1]

    yield make_stream
    for each in made:
        each.close(wait=True)


@pytest.fixture
def reader(stream: Any) -> Any:
    """Makes the batches of a share, each with the position after it."""

    def make_reader(
        data: PreparedData, task: Task, share: int = 0, shares: int = 1, position: Any = None
    ) -> Any:
        return stream(data, task, shares).share(share, position or StreamPosition())

    return make_reader


def texts(data: PreparedData, batch: Any) -> Made:
    sides = (data.processor.source.decode(batch.source.ids.tolist()), batch.target.ids.tolist())
    return list(zip(sides[0], data.processor.target.decode(sides[1]), strict=True))


def passes(data: PreparedData, reader: Any) -> Iterator[list[Made]]:
    """Yields the batches of each pass."""
    for _, batches in groupby(reader, key=lambda pair: pair[0].passes):
        yield [texts(data, batch) for _, batch in batches]


@pytest.mark.parametrize("counts", [(100,), (64,), (5,), (40, 1, 30)])
def test_a_pass_has_every_example_once(make: Any, reader: Any, counts: tuple[int, ...]) -> None:
    """With a last block that is short, one that is full, one block in all, and blocks across files."""
    task, made = make(*counts)
    data = prepare(Experiment.of(task, REGISTRY))
    first, second = islice(passes(data, reader(data, task)), 2)
    for each in (first, second):
        assert sorted(pair for batch in each for pair in batch) == sorted(made)
    assert first != second


@pytest.mark.parametrize(("counts", "shares"), [((100,), 2), ((50, 40, 7), 2), ((30, 20), 3), ((40, 41), 2)])
def test_shares_are_disjoint_and_together_all(
    make: Any, reader: Any, counts: tuple[int, ...], shares: int
) -> None:
    task, made = make(*counts)
    data = prepare(Experiment.of(task, REGISTRY))
    parts = [
        {pair for batch in next(passes(data, reader(data, task, share, shares))) for pair in batch}
        for share in range(shares)
    ]
    assert sum(map(len, parts)) == len(made)
    assert set.union(*parts) == set(made)
    if len(counts) >= shares:  # files of their own
        words = [{source[0] for source, _ in part} for part in parts]
        assert not words[0] & words[1]


@pytest.mark.parametrize(("counts", "shares"), [((75,), 1), ((40, 30, 20), 2), ((90,), 2)])
def test_going_on_from_any_place_is_exact(
    make: Any, reader: Any, counts: tuple[int, ...], shares: int
) -> None:
    """From the first and the last batch of a block, from its middle, and from another pass."""
    task, _ = make(*counts)
    data = prepare(Experiment.of(task, REGISTRY))
    whole = reader(data, task, shares - 1, shares)
    places, batches = [json.dumps(asdict(StreamPosition()))], []
    for place, batch in whole:
        places.append(json.dumps(asdict(place)))
        batches.append(batch)
        if place.passes == 2:
            break
    assert len(batches) > 8
    for number, place in list(enumerate(places[:-1]))[::3]:
        saved = StreamPosition(**json.loads(place))
        resumed = reader(data, task, shares - 1, shares, saved)
        for expected in batches[number : number + 7]:
            _, batch = next(resumed)
            assert batch.rows == expected.rows
            assert batch.source.ids.equal(expected.source.ids)
            assert batch.target.ids.equal(expected.target.ids)


def test_blocks_and_shares_have_the_lengths_for_the_validation_split(make: Any, reader: Any) -> None:
    task, _ = make(100, 60)
    data = prepare(Experiment.of(task, REGISTRY))
    sample = data.streamed.sample
    assert len(sample) == 32
    planned = ladder_of(task.training, sample).batches(sample.lengths, sample.counts, 1, 0)
    lengths, longest = {tuple(batch.lengths) for batch in planned}, sample.lengths.max(axis=0)
    assert len(lengths) > 1
    for share in (0, 1):
        for place, batch in reader(data, task, share, 2):
            if place.passes == 1:
                break
            found = (batch.source.ids.shape[1], batch.target.ids.shape[1])
            assert found in lengths or any(found > longest)


def test_a_bad_row_names_file_and_line(make: Any, reader: Any, tmp_path: Path) -> None:
    task, made = make(100)
    made[69] = ("something", " ")
    write(tmp_path, "train0", made)
    task = task.model_copy(
        update={
            "data": task.data.model_copy(
                update={"streaming": task.data.streaming.model_copy(update={"tokenizer_examples": 50})}
            )
        }
    )
    data = prepare(Experiment.of(task, REGISTRY))
    with pytest.raises(DataError, match=r"train0.en:70: the target is empty, expected text; fill it in"):
        next(passes(data, reader(data, task)))


def test_bad_rows_are_skipped_and_counted(make: Any, stream: Any, tmp_path: Path) -> None:
    task, made = make(100, data={"bad_rows": "skip"})
    made[69] = ("something", " ")
    write(tmp_path, "train0", made)
    data = prepare(Experiment.of(task, REGISTRY))
    batches = stream(data, task)
    found = next(passes(data, batches.share(0, StreamPosition())))
    assert sum(map(len, found)) == 99
    (notice,) = batches.stats.notices("train")
    assert notice.startswith("train: bad rows skipped: 1 of 132 (0.8%); the first:\n  ")
    assert "train0.en:70: the target is empty" in notice


def test_no_example_is_short_enough(make: Any, reader: Any, tmp_path: Path) -> None:
    task, _ = make(40, data={"length": {"max": 1, "over": "drop"}})
    write(tmp_path, "validation", [("v", "v")])
    write(tmp_path, "train0", [("a b", "c d")] * 40)
    data = prepare(Experiment.of(task, REGISTRY))
    with pytest.raises(
        DataError, match=r"train: none of its 40 rows can be used \(40 examples.*40 dropped\)"
    ):
        next(reader(data, task))


def test_tokenizers_learn_from_the_first_examples_of_all_files(make: Any) -> None:
    task, _ = make(30, 30, data={"streaming": {"tokenizer_examples": 10}})
    data = prepare(Experiment.of(task, REGISTRY))
    words = ["a0", "a4", "a5", "b0", "b4", "b5"]
    encoded = data.processor.source.encode(words)
    known = [
        word
        for word, numbers in zip(words, encoded, strict=True)
        if data.processor.source.decode([numbers]) == [word]
    ]
    assert known == ["a0", "a4", "b0", "b4"]


def test_only_what_is_not_streamed_is_prepared(make: Any) -> None:
    task, _ = make(30)
    data = prepare(Experiment.of(task, REGISTRY))
    assert list(data.splits) == ["validation"]
    assert sorted(data.hashes) == ["train", "validation"]
    again = prepare(Experiment.of(task, REGISTRY))
    assert again.hashes == data.hashes


ROWS = [{"text": f"word {number}", "label": ("no", "yes")[number % 2]} for number in range(40)]


def labeled(tmp_path: Path, **data: Any) -> Task:
    lines = [json.dumps(row) + "\n" for row in ROWS]
    with gzip.open(tmp_path / "train.jsonl.gz", "wt") as file:
        file.writelines(lines)
    (tmp_path / "validation.jsonl").write_text("".join(lines[:10]))
    files = {"train": str(tmp_path / "train.jsonl.gz"), "validation": str(tmp_path / "validation.jsonl")}
    return Task.model_validate(
        {
            "type": "classification",
            "data": {"name": "table", "files": files, "labels": ["yes", "no"], "streaming": {"buffer": 16}}
            | data,
            "tokenizer": "whitespace",
            "model": {"architecture": "encoder-only", "head": "classifier"},
            "training": {"steps": 5, "batch_size": 4},
        }
    )


def test_labels(tmp_path: Path, reader: Any) -> None:
    task = labeled(tmp_path)
    data = prepare(Experiment.of(task, REGISTRY))
    assert data.processor.task_type.state == ["yes", "no"]
    for _, batch in islice(reader(data, task), 8):
        words = data.processor.source.decode(batch.source.ids.tolist())
        expected = [1 - int(words.split()[1]) % 2 for words in words]
        assert batch.targets.tolist() == expected


def test_labels_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"the classes are not known .* name them in data\.labels"):
        prepare(Experiment.of(labeled(tmp_path, labels=None), REGISTRY))
    with pytest.raises(DataError, match=r"jsonl:1: unknown label 'no'; expected one of .'yes', 'maybe'"):
        prepare(Experiment.of(labeled(tmp_path, labels=["yes", "maybe"]), REGISTRY))


def test_a_data_set_laid_out_as_on_the_hub(
    tmp_path: Path, stream: Any, reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    place, made = tmp_path / "set", [sentences(40, "a"), sentences(30, "b")]
    place.mkdir()
    for name, pairs in (("train-0", made[0]), ("train-1", made[1]), ("validation", made[0][:5])):
        rows = ({"translation": {"de": source, "en": target}} for source, target in pairs)
        (place / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    data_block = {
        "name": "hub",
        "dataset": str(place),
        "columns": {"source": "translation.de", "target": "translation.en"},
        "streaming": {"buffer": 32},
    }
    task = task_of([], {})
    task = Task.model_validate({**task.model_dump(exclude={"data"}), "data": data_block})
    data = prepare(Experiment.of(task, REGISTRY))
    batches = stream(data, task)
    share = batches.share(0, StreamPosition())
    found = next(passes(data, share))
    assert sorted(pair for batch in found for pair in batch) == sorted(made[0] + made[1])
    assert batches.stats.rows == 70 + 32  # and the first block of another pass
    place, _ = next(share)
    resumed = reader(data, task, position=StreamPosition(**json.loads(json.dumps(asdict(place)))))
    assert [next(resumed)[1].rows for _ in range(5)] == [next(share)[1].rows for _ in range(5)]


def test_a_data_set_of_the_hub_that_names_no_classes_cannot_be_streamed(tmp_path: Path) -> None:
    """There is no option in which they could be named."""
    (tmp_path / "train.jsonl").write_text(json.dumps({"text": "x", "label": 0}))
    data = REGISTRY.create("data", "hub", dataset=str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"the classes are not known .* leave out data\.streaming"):
        data.stream(LABELS)
