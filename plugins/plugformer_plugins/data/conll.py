"""CoNLL files: one word per line with its tags in columns, and blank lines between sentences."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from plugformer.data import read_lines
from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Column, Data, require_columns
from plugformer_plugins.data.examples import BadRows, LoadedRow, Policy, build, needed
from plugformer_plugins.data.splits import Keys, OneOrMore, SplitName, missing, one_or_more, placed

if TYPE_CHECKING:
    from datasets import DatasetDict

Number = Annotated[int, Field(ge=1)]

_NO_WORD = re.compile(r"\d+[-.]\d+")
"""The number of a CoNLL-U line that is not a word: a multiword token or an empty node."""


class CoNLL(Data):
    """Sentences of words with tags, plain or with .gz.

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
        columns: dict[str, Number] = {"words": 1, "tags": 4},  # noqa: B006 (pydantic copies it)
        bad_rows: Policy = "refuse",
    ) -> None:
        self._files = files
        self._columns = columns
        self._bad_rows = bad_rows
        self._notices: list[str] = []

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Requires columns that `columns` names and that hold words or tags."""
        require_columns("conll", list(self._columns), columns)
        for column in needed(columns):
            if column.holds not in ("words", "tags"):
                raise ConfigurationError(
                    f"data 'conll' has words and tags, but the task's column {column.name} holds "
                    f"{column.holds}; choose another data component or task type"
                )

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits that `files` names.

        Raises:
            ConfigurationError: The task asks for columns that `columns` does not name.
            DataError: A file cannot be read, or a line has too few columns.
        """
        self.check_columns(columns)
        wanted, bad_rows = needed(columns), BadRows(self._bad_rows)
        places = [self._columns[column.name] for column in wanted]
        splits = {
            split: chain.from_iterable(_sentences(file, places) for file in one_or_more(files))
            for split, files in self._files.items()
        }
        examples = build(splits, wanted, bad_rows)
        self._notices = bad_rows.notices()
        return examples

    def problems(self, columns: Sequence[Column]) -> Iterator[tuple[Keys, str]]:
        """Yields missing files."""
        return missing(placed(self._files))

    def notices(self) -> list[str]:
        """Returns the number of skipped sentences and the first errors."""
        return self._notices


def _sentences(file: Path, places: Sequence[int]) -> Iterator[LoadedRow | DataError]:
    """Yields the sentences of a file, or their errors."""
    rows: list[list[str]] = []
    first, error = 1, None
    for number, line in enumerate(chain(read_lines(file), [""]), start=1):
        if not line.strip():
            if error is not None:
                yield error
            elif rows:
                values = tuple([row[place - 1] for row in rows] for place in places)
                yield LoadedRow(values, f"{file}:{first}")
            rows, first, error = [], number + 1, None
            continue
        if (line.startswith("# ") and "\t" not in line) or line.startswith("-DOCSTART-"):
            continue
        fields = line.split("\t") if "\t" in line else line.split()
        if _NO_WORD.fullmatch(fields[0]):
            continue
        rows.append(fields)
        if error is None and (len(fields) < max(places) or not all(fields[place - 1] for place in places)):
            error = DataError(
                f"{file}:{number}: {len(fields)} columns, expected text in column {max(places)}; correct the "
                "line, or name the right columns in data.columns"
            )
