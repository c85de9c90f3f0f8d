"""Dates in many spellings, and how to read or generate them."""

from itertools import islice
from pathlib import Path
from typing import Annotated

from pydantic import Field

from plugformer.errors import ConfigurationError, DataError
from plugformer_blocks import read_lines
from plugformer_tasks.generated import GeneratedData

HELD_OUT = 0.05
"""Share of the rows that is the test set; as many before them are the validation set."""


class Dates(GeneratedData):
    """Dates in many spellings and as ISO 8601, generated for any locale or read from a file.

    Dates as people write them, and the same dates as ISO 8601.
    See https://babel.pocoo.org/en/latest/dates.html.

    Rows keep their order: the last 5 % are `test`, the 5 % before them `validation`. Where some test rows
    have a source that occurs before the test set, as in a file with repeats, `test_unseen` holds the others.

    Args:
        path: A file of `source_target` lines, spaces around the source ignored; generated if None.
        size: Number of generated rows, with distinct sources.
        locales: Locales whose spellings are generated, for example en_US (the month first) or de_DE.
        seed: Of the generator; the same seed gives the same rows.
        exceptions: Share of the generated rows that have day and month exchanged, where only one number can
            be the day, as in 25/12/2020; and, of those for training, share of rows that name no day, such as
            February 30, each with a day drawn at random, so that a model gives such an answer little
            probability. The other rows are the same whatever the share.
    """

    def __init__(
        self,
        *,
        path: Path | None = None,
        size: Annotated[int, Field(ge=20)] = 50_000,
        locales: Annotated[tuple[str, ...], Field(min_length=1)] = ("en_US",),
        seed: int = 1,
        exceptions: Annotated[float, Field(ge=0, le=0.25)] = 0.0,
    ) -> None:
        self._path = path
        self._size = size
        self._locales = locales
        self._seed = seed
        self._exceptions = exceptions

    def splits(self) -> dict[str, list[tuple[str, str]]]:
        """Returns train, validation, test and, where it differs from test, test_unseen.

        Raises:
            ConfigurationError: A locale is unknown, or the locales have fewer spellings than `size`.
            DataError: A line of the file has no separator, or the file cannot be read.
        """
        rows = self._generated() if self._path is None else read(self._path)
        held_out = int(len(rows) * HELD_OUT)
        before, test = rows[:-held_out], rows[-held_out:]
        splits = {"train": before[:-held_out], "validation": before[-held_out:], "test": test}
        seen = {source for source, _ in before}
        unseen = [row for row in test if row[0] not in seen]
        return {**splits, "test_unseen": unseen} if 0 < len(unseen) < len(test) else splits

    def _generated(self) -> list[tuple[str, str]]:
        from plugformer_tasks.dates.spelling import spelled_dates

        rows = list(islice(spelled_dates(self._locales, self._seed), self._size))
        if len(rows) < self._size:
            raise ConfigurationError(
                f"data 'dates': size: {self._size} is more than the locales {list(self._locales)} can spell "
                f"({len(rows)} found); lower the size or add a locale"
            )
        return self._with_exceptions(rows) if self._exceptions else rows

    def _with_exceptions(self, rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Replaces rows at regular distances: they are drawn, and so are the others."""
        from plugformer_tasks.dates.exceptions import exchanged_dates, no_dates

        distance = round(1 / self._exceptions)
        training = rows[: -2 * int(len(rows) * HELD_OUT)]
        known = {source for source, _ in rows}
        for places, exceptions in (
            (range(0, len(rows), distance), exchanged_dates(self._locales, self._seed)),
            (range(distance // 2, len(training), distance), no_dates(self._locales, self._seed)),
        ):
            new = (row for row in exceptions if row[0] not in known)
            for place, row in zip(places, new, strict=False):
                known.add(row[0])
                rows[place] = row
        return rows


def read(file: Path) -> list[tuple[str, str]]:
    """Returns a file's rows.

    Raises:
        DataError: A line lacks the separator or one of its sides; the file cannot be read or is too short.
    """
    rows = []
    for number, line in enumerate(read_lines(file), start=1):
        source, separator, target = (part.strip() for part in line.rpartition("_"))
        if not (source and separator and target):
            raise DataError(
                f"{file}:{number}: expected a source, '_' and a target, found {line!r}; "
                "complete the line or take it out"
            )
        rows.append((source, target))
    if len(rows) < 1 / HELD_OUT:
        raise DataError(f"{file}: {len(rows)} lines are too few: 5 % of them must be at least one; add lines")
    return rows
