"""Prepared examples on disk: an Arrow file for each split, the tokenizers, and a list of it all."""

import json
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from datasets import Dataset, DatasetDict
from pydantic import BaseModel, ConfigDict

from plugformer.cache import cache_folder, scratch_folder
from plugformer.data.arrow_files import PLACE
from plugformer.data.fingerprints import content_hash, files_version, fingerprint
from plugformer.data.tokenizing import encode_to_file, save_tokenizers
from plugformer.data.vocabularies import Vocabularies
from plugformer.errors import DataError

UNUSED_DAYS = 30
"""What nobody has used for so long is removed when something new is stored."""

_LIST = "entry.json"


class _Content(BaseModel):
    """What `entry.json` says.

    Attributes:
        splits: Names of the splits; the first is in `0.arrow`.
        hashes: As of `PreparedEntry`.
        learned: As of `PreparedEntry`.
        task_type: As of `PreparedEntry`.
        notices: As of `PreparedEntry`.
        files: A hash of every other file, by name.
        checksum: A hash of all of the above.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    splits: list[str]
    hashes: dict[str, str]
    learned: dict[str, str]
    task_type: Any
    notices: list[str]
    files: dict[str, str]
    checksum: str = ""

    def expected_checksum(self) -> str:
        return fingerprint(self.model_dump_json(exclude={"checksum"}))


@dataclass(frozen=True)
class PreparedEntry:
    """A task's examples with their token numbers, memory-mapped.

    Attributes:
        folder: Where they lie, with the files of the tokenizers.
        splits: The examples by split.
        hashes: A hash of each split's content without token numbers.
        learned: A hash of what each side's tokenizer, and the task's type, have learned.
        task_type: What the task's type has learned.
        notices: What the data component said about the examples.
    """

    folder: Path
    splits: dict[str, Dataset]
    hashes: dict[str, str]
    learned: dict[str, str]
    task_type: Any
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
        except (OSError, ValueError, DataError, pa.ArrowException) as error:
            cause = str(error).partition("\n")[0]
            raise DataError(
                f"{folder}: the prepared examples are damaged: {cause}; they are prepared again"
            ) from error
        with suppress(OSError):
            os.utime(folder)  # the time of its last use
        return entry

    @classmethod
    def make(
        cls,
        key: str,
        examples: DatasetDict,
        vocabularies: Vocabularies,
        notices: Sequence[str],
    ) -> "PreparedEntry":
        """Encodes examples and stores them; for this process alone where the cache cannot be written."""
        folder = scratch_folder(PLACE) / uuid4().hex
        folder.mkdir()
        learned = fingerprints(vocabularies, folder)
        hashes = {
            name: content_hash(
                encode_to_file(folder / f"{number}.arrow", data, vocabularies, partial(_place_in, name))
            )
            for number, (name, data) in enumerate(examples.items())
        }
        content = _Content(
            splits=list(examples),
            hashes=hashes,
            learned=learned,
            task_type=vocabularies.learned,
            # The name of a file that is not UTF-8 has no place in JSON.
            notices=[each.encode("utf-8", "replace").decode() for each in notices],
            files={file.name: files_version([file]) for file in sorted(folder.iterdir())},
        )
        content = content.model_copy(update={"checksum": content.expected_checksum()})
        (folder / _LIST).write_text(content.model_dump_json(), encoding="utf-8")
        return cls._of(content, _stored(folder, key))

    @classmethod
    def _open(cls, folder: Path) -> "PreparedEntry":
        content = _Content.model_validate_json((folder / _LIST).read_bytes())
        if content.checksum != content.expected_checksum():
            raise ValueError(f"{_LIST} is not what was written")
        for name, expected in content.files.items():
            if files_version([folder / name]) != expected:
                raise ValueError(f"{name} is not what was written")
        return cls._of(content, folder)

    @classmethod
    def _of(cls, content: _Content, folder: Path) -> "PreparedEntry":
        names = enumerate(content.splits)
        splits = {name: Dataset.from_file(str(folder / f"{number}.arrow")) for number, name in names}
        return cls(folder, splits, content.hashes, content.learned, content.task_type, content.notices)


def fingerprints(vocabularies: Vocabularies, folder: Path) -> dict[str, str]:
    """Writes what tokenizers have learned into a folder; returns hashes of that and of the type's."""
    own = {} if vocabularies.learned is None else {"task_type": fingerprint(json.dumps(vocabularies.learned))}
    return save_tokenizers(vocabularies.tokenizers, folder) | own


def _place_in(split: str, row: int) -> str:
    return f"{split}, example {row + 1}"


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
