"""Prepared examples on disk: an Arrow file for each split, the tokenizers, and a list of it all."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from datasets import Dataset, DatasetDict

from plugformer.cache import cache_folder, scratch_folder
from plugformer.data.arrow_files import PLACE
from plugformer.data.fingerprints import content_hash
from plugformer.data.tokenizing import Tokenizers, encode_to_file, save_tokenizers
from plugformer.errors import DataError
from plugformer.interfaces.data import TaskType

UNUSED_DAYS = 30
"""What nobody has used for so long is removed when something new is stored."""

_LIST = "entry.json"


@dataclass(frozen=True)
class PreparedEntry:
    """A task's examples with their token numbers, memory-mapped.

    Attributes:
        folder: Where they lie, with the files of the tokenizers.
        splits: The examples by split.
        hashes: A hash of each split's content without token numbers.
        learned: A hash of what each side's tokenizer has learned.
        notices: What the data component said about the examples.
    """

    folder: Path
    splits: dict[str, Dataset]
    hashes: dict[str, str]
    learned: dict[str, str]
    notices: list[str]

    @classmethod
    def find(cls, key: str) -> "PreparedEntry | None":
        """Returns what was stored under a key, or None.

        Raises:
            DataError: Something was, but it is damaged.
        """
        folder = _place(key)
        if not folder.is_dir():
            return None
        try:
            entry = cls._open(folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
            raise DataError(
                f"{folder}: the prepared examples are damaged: {error}; prepare them anew"
            ) from error
        with suppress(OSError):
            os.utime(folder)  # the time of its last use
        return entry

    @classmethod
    def make(
        cls,
        key: str,
        examples: DatasetDict,
        task_type: TaskType,
        tokenizers: Tokenizers,
        notices: Sequence[str],
    ) -> "PreparedEntry":
        """Encodes examples and stores them; for this process alone where the cache cannot be written."""
        folder = scratch_folder(PLACE) / uuid4().hex
        folder.mkdir()
        content: dict[str, Any] = {"splits": list(examples), "notices": list(notices)}
        content["learned"] = save_tokenizers(tokenizers, folder)
        content["hashes"] = {
            name: content_hash(encode_to_file(folder / f"{number}.arrow", data, task_type, tokenizers))
            for number, (name, data) in enumerate(examples.items())
        }
        content["sizes"] = {file.name: file.stat().st_size for file in folder.iterdir()}
        (folder / _LIST).write_text(json.dumps(content), encoding="utf-8")
        return cls._open(_stored(folder, key))

    @classmethod
    def _open(cls, folder: Path) -> "PreparedEntry":
        content = json.loads((folder / _LIST).read_text(encoding="utf-8"))
        for name, size in content["sizes"].items():
            if (found := (folder / name).stat().st_size) != size:
                raise ValueError(f"{name} has {found} bytes instead of {size}")
        names = enumerate(content["splits"])
        splits = {name: Dataset.from_file(str(folder / f"{number}.arrow")) for number, name in names}
        return cls(folder, splits, content["hashes"], content["learned"], content["notices"])


def remove(key: str) -> None:
    """Removes what was stored under a key, as far as that is possible."""
    shutil.rmtree(_place(key), ignore_errors=True)


def _place(key: str) -> Path:
    return cache_folder() / PLACE / key


def _stored(folder: Path, key: str) -> Path:
    """Gives a folder its final place and returns it.

    It stays where it is if the cache cannot be written, or another process has stored the same meanwhile.
    """
    try:
        place = folder.rename(_place(key))
    except OSError:
        return folder
    oldest = time.time() - UNUSED_DAYS * 24 * 60 * 60
    for each in place.parent.iterdir():
        with suppress(OSError):  # somebody else may be removing it
            if each.stat().st_mtime < oldest:
                shutil.rmtree(each, ignore_errors=True)
    return place
