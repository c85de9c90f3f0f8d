"""Sentences with names: their tags, their splits, and that names alone do not tell what they are."""

from typing import Any

from datasets import DatasetDict

from plugformer.interfaces import Column
from plugformer.registry import Registry
from plugformer_plugins.task_type.tagging import Tagging
from plugformer_tasks.names.data import BOTH

SIZES = {"train": 300, "validation": 40, "test": 40}
COLUMNS: tuple[Column, ...] = Tagging().columns


def load(**options: Any) -> DatasetDict:
    create = Registry.discover().create
    data: DatasetDict = create("data", "names", **{"size": 300, "held_out": 40, **options}).load(COLUMNS)
    return data


def test_every_word_has_a_tag_of_iob2() -> None:
    for split in load().values():
        for example in split:
            words, tags = example["words"], example["tags"]
            assert len(words) == len(tags)
            assert set(tags) <= {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}
            for before, tag in zip(["O", *tags], tags, strict=False):
                assert not tag.startswith("I-") or before[2:] == tag[2:]
            assert all(tag != "O" for word, tag in zip(words, tags, strict=True) if word in BOTH)


def test_no_sentence_is_there_twice_and_lengths_are_alike() -> None:
    data = load()
    assert {name: len(split) for name, split in data.items()} == SIZES
    sentences = [" ".join(words) for split in data.values() for words in split["words"]]
    assert len(set(sentences)) == len(sentences)
    lengths = {name: sum(map(len, split["words"])) / len(split) for name, split in data.items()}
    assert max(lengths.values()) - min(lengths.values()) < 1
