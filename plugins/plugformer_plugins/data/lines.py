"""Parallel files: line n of one is the translation of line n of the other."""

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from plugformer.data import check_file, read_lines
from plugformer.errors import DataError
from plugformer.interfaces import Column, Data, require_columns
from plugformer_plugins.data.examples import BadRows, LoadedRow, Policy, build, needed, require_text
from plugformer_plugins.data.splits import Keys, OneOrMore, SplitName, missing, one_or_more, placed
from plugformer_plugins.data.streams import stream

if TYPE_CHECKING:
    from datasets import DatasetDict, IterableDatasetDict


class Pair(BaseModel):
    """Two files with the same number of lines."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Path
    target: Path


class Lines(Data):
    """Sentence pairs in two files, plain or with .gz.

    Args:
        files: For each split a `source` and a `target` file, or a list of such pairs.
        spaces: Whether white space is kept or removed, as for Chinese files with a space after each
            character.
        bad_rows: Whether a line that is empty or not UTF-8 stops the reading, or is skipped with its partner,
            counted and reported.
    """

    def __init__(
        self,
        *,
        files: dict[SplitName, OneOrMore[Pair]],
        spaces: Literal["keep", "remove"] = "keep",
        bad_rows: Policy = "refuse",
    ) -> None:
        self._files = files
        self._spaces = spaces
        self._bad_rows = bad_rows
        self._notices: list[str] = []

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuses columns other than source and target."""
        require_columns("lines", ("source", "target"), columns)

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits that `files` names.

        Raises:
            ConfigurationError: The task has other columns.
            DataError: A file cannot be read, has an empty line, or has more lines than its partner.
        """
        self.check_columns(columns)
        bad_rows = BadRows(self._bad_rows)
        splits = {
            split: chain.from_iterable(map(self._read, one_or_more(pairs)))
            for split, pairs in self._files.items()
        }
        examples = build(splits, needed(columns), bad_rows)
        self._notices = bad_rows.notices()
        return examples

    def problems(self, columns: Sequence[Column]) -> Iterator[tuple[Keys, str]]:
        """Yields missing files."""
        for path, pair in placed(self._files):
            yield from missing([((*path, "source"), pair.source), ((*path, "target"), pair.target)])

    def stream(self, columns: Sequence[Column]) -> "IterableDatasetDict":
        """Returns the splits unread; each pair of files is a shard.

        Raises:
            ConfigurationError: The task has other columns.
            DataError: A file is missing or empty.
        """
        self.check_columns(columns)
        pairs = {split: one_or_more(pairs) for split, pairs in self._files.items()}
        for pair in chain.from_iterable(pairs.values()):
            check_file(pair.source)
            check_file(pair.target)
        return stream(pairs, self._read, needed(columns), self._bad_rows)

    def notices(self) -> list[str]:
        """Returns the number of skipped rows and the first errors."""
        return self._notices

    def _read(self, pair: Pair) -> Iterator[LoadedRow | DataError]:
        lines = zip_longest(self._lines(pair.source), self._lines(pair.target))
        for number, (one, other) in enumerate(lines, start=1):
            if one is None or other is None:
                shorter, longer = (pair.source, pair.target)[:: 1 if one is None else -1]
                raise DataError(f"{shorter}:{number}: this line is missing: {longer} has more lines")
            place = f"{pair.source}:{number}"
            try:
                text = require_text(one, "source", place)
                yield LoadedRow((text, require_text(other, "target", f"{pair.target}:{number}")), place)
            except DataError as error:
                yield error

    def _lines(self, file: Path) -> Iterator[str]:
        lines = read_lines(file, strict=self._bad_rows == "refuse")
        return ("".join(line.split()) for line in lines) if self._spaces == "remove" else lines
