"""Parallel files: line n of one is the translation of line n of the other."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from plugformer.errors import DataError
from plugformer.interfaces import Column
from plugformer_blocks import read_lines
from plugformer_plugins.data.files import FileData, Keys, OneOrMore, SplitName
from plugformer_plugins.data.rows import LoadedRow, Policy, read_cell


class ParallelFiles(BaseModel):
    """Two files with the same number of lines."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Path
    target: Path


class Lines(FileData):
    """Sentence pairs in two files, plain or with .gz.

    See https://www.statmt.org/wmt16/multimodal-task.html.

    Args:
        files: For each split a `source` and a `target` file, or a list of such pairs.
        spaces: Whether white space is kept or removed, as for Chinese files with a space after each
            character.
        bad_rows: Whether a line that is empty or not UTF-8 stops the reading, or is skipped with its partner,
            counted and reported.
    """

    offered = ("source", "target")

    def __init__(
        self,
        *,
        files: dict[SplitName, OneOrMore[ParallelFiles]],
        spaces: Literal["keep", "remove"] = "keep",
        bad_rows: Policy = "refuse",
    ) -> None:
        self._files = files
        self._spaces = spaces
        self._bad_rows = bad_rows

    def placed(self) -> Iterator[tuple[Keys, Path]]:
        """Yields every file with the keys that lead to it."""
        for keys, pair in super().placed():
            yield (*keys, "source"), pair.source
            yield (*keys, "target"), pair.target

    def read(self, source: ParallelFiles, columns: Sequence[Column]) -> Iterator[LoadedRow | DataError]:
        """Yields the lines of a pair of files.

        Raises:
            DataError: A file cannot be read, or has more lines than its partner.
        """
        files = (source.source, source.target)
        lines = zip_longest(*(read_lines(file, strict=self._bad_rows == "refuse") for file in files))
        for number, texts in enumerate(lines, start=1):
            if None in texts:
                shorter, longer = files if texts[0] is None else files[::-1]
                raise DataError(f"{shorter}:{number}: this line is missing: {longer} has more lines")
            if self._spaces == "remove":
                texts = tuple("".join(text.split()) for text in texts)
            places = {"source": f"{files[0]}:{number}", "target": f"{files[1]}:{number}"}
            cells = dict(zip(places, texts, strict=True))
            try:
                values = (read_cell(cells[column.name], column, places[column.name]) for column in columns)
                yield LoadedRow(tuple(values), places["source"])
            except DataError as error:
                yield error
