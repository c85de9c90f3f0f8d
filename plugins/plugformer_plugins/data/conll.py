"""CoNLL files: one word per line with its tags in columns, and blank lines between sentences."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated

from pydantic import Field

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Column
from plugformer_blocks import read_lines
from plugformer_plugins.data.files import FileData, OneOrMore, SplitName
from plugformer_plugins.data.rows import LoadedRow, Policy, loaded_row

_NO_WORD = re.compile(r"\d+[-.]\d+")
"""The number of a line that is no word, if column 1 is not read: a multiword token or an empty node."""


class CoNLL(FileData):
    """One word per line with its tags in columns, and blank lines between sentences.

    Sentences of words with tags, or with numbers, plain or with .gz.
    See https://universaldependencies.org/format.html.

    Tabs separate the fields of a line that has any, else white space. Lines that begin with `# ` and have no
    tab are comments, and so are `-DOCSTART-` lines.

    Args:
        files: For each split a file, or several.
        columns: The columns of the words and of the tags, counted from 1. In CoNLL 2003, column 4 has tags of
            entities; in CoNLL-U, column 2 has words and column 4 parts of speech.
        bad_rows: Whether a line with too few columns stops the reading, or its sentence is skipped.
    """

    def __init__(
        self,
        *,
        files: dict[SplitName, OneOrMore[Path]],
        columns: dict[str, Annotated[int, Field(ge=1)]] = {"words": 1, "tags": 4},  # noqa: B006 (pydantic copies it)
        bad_rows: Policy = "refuse",
    ) -> None:
        self._files = files
        self._columns: Mapping[str, int] = columns
        self.offered = [*columns]
        self._bad_rows = bad_rows

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Requires columns that `columns` names and that hold words, or something for each word."""
        super().check_columns(columns)
        for column in (column for column in columns if column.name in self._columns):
            if column.holds != "words" and not column.kind.aligned:
                raise ConfigurationError(
                    f"data 'conll' has words and tags, but the task's column {column.name} holds "
                    f"{column.holds}; choose another data component or task type"
                )

    def read(self, source: Path, columns: Sequence[Column]) -> Iterator[LoadedRow | DataError]:
        """Yields the sentences of a file, or the first error of each: too few columns, or no number.

        Raises:
            DataError: The file cannot be read.
        """
        places = [self._columns[column.name] for column in columns]
        rows: list[list[str]] = []
        first, error = 1, None
        for number, line in enumerate(chain(read_lines(source), [""]), start=1):
            if not line.strip():
                if error is not None:
                    yield error
                elif rows:
                    cells = [[row[place - 1] for row in rows] for place in places]
                    try:
                        yield loaded_row(cells, columns, f"{source}:{first}")
                    except DataError as faulty:
                        yield faulty
                rows, first, error = [], number + 1, None
                continue
            fields = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
            is_comment = (fields[0] == "#" and "\t" not in line) or fields[0] == "-DOCSTART-"
            if is_comment or (1 not in places and _NO_WORD.fullmatch(fields[0])):
                continue
            rows.append(fields)
            complete = len(fields) >= max(places) and all(fields[place - 1] for place in places)
            if error is None and not complete:
                error = DataError(
                    f"{source}:{number}: {len(fields)} columns, expected text in column {max(places)}; "
                    "correct the line, or name the right columns in data.columns"
                )
