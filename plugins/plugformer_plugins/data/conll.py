"""CoNLL files: a word to a line with its tags in columns, and blank lines between sentences."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from plugformer.data import read_lines
from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Column, Data, require_columns
from plugformer_plugins.data.bad_rows import BadRows, Policy
from plugformer_plugins.data.examples import Example, build, needed
from plugformer_plugins.data.splits import Keys, OneOrMore, SplitName, missing, one_or_more, placed

if TYPE_CHECKING:
    from datasets import DatasetDict

Number = Annotated[int, Field(ge=1)]

_NO_WORD = re.compile(r"\d+[-.]\d+")
"""The number of a line of CoNLL-U that is no word: several words written as one, or one that is left out."""


class CoNLL(Data):
    """Sentences of words with tags, plain or with .gz.

    Fields stand between tabs if there is one in a line, else between white space. Lines that begin with `# `
    and have no tab are comments, as are those of `-DOCSTART-`.

    Args:
        files: For each split a file, or several.
        columns: Which column has the words and which the tags, counted from 1; CoNLL 2003 has tags of
            entities in its fourth, CoNLL-U words in its second and parts of speech in its fourth.
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
        """Refuses columns that `columns` does not name, and any that hold no lists of text."""
        require_columns("conll", list(self._columns), columns)
        for column in needed(columns):
            if column.holds not in ("words", "tags"):
                raise ConfigurationError(
                    f"data 'conll' has words and tags, and the task's {column.name} holds {column.holds}; "
                    "choose other data, or another type"
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
        """Yields files that are not there."""
        return missing(placed(self._files))

    def notices(self) -> list[str]:
        """Returns the number of sentences that were skipped, and the first of them."""
        return self._notices


def _sentences(file: Path, places: Sequence[int]) -> Iterator[Example | DataError]:
    """Yields the sentences of a file, or what is wrong with them."""
    rows: list[list[str]] = []
    first, fault = 1, None
    for number, line in enumerate(chain(read_lines(file), [""]), start=1):
        if not line.strip():
            if fault is not None:
                yield fault
            elif rows:
                yield Example(tuple([row[place - 1] for row in rows] for place in places), f"{file}:{first}")
            rows, first, fault = [], number + 1, None
            continue
        if (line.startswith("# ") and "\t" not in line) or line.startswith("-DOCSTART-"):
            continue
        fields = line.split("\t") if "\t" in line else line.split()
        if _NO_WORD.fullmatch(fields[0]):
            continue
        rows.append(fields)
        if fault is None and (len(fields) < max(places) or not all(fields[place - 1] for place in places)):
            fault = DataError(
                f"{file}:{number}: {len(fields)} columns, expected text in column {max(places)}; correct the "
                "line, or say in data.columns which columns have what"
            )
