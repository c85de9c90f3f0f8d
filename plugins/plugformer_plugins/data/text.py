"""Plain text: what language models learn from."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from plugformer.data import read_lines
from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Column, Data, require_one_text
from plugformer_plugins.data.examples import BadRows, LoadedRow, build
from plugformer_plugins.data.splits import Keys, OneOrMore, SplitName, missing, one_or_more, placed

if TYPE_CHECKING:
    from datasets import DatasetDict


class PlainText(Data):
    """Text files, plain or with .gz.

    Args:
        files: For each split a file, or several.
        examples: What is an example: a whole file, a paragraph (between blank lines) or a line. Blank lines
            are no examples.
        ends: Splits that are cut off the ends of the training files, each a share of their characters: the
            last ones are the test, those before the validation.
    """

    def __init__(
        self,
        *,
        files: dict[SplitName, OneOrMore[Path]],
        examples: Literal["file", "paragraph", "line"] = "file",
        ends: dict[Literal["validation", "test"], Annotated[float, Field(gt=0, lt=1)]] | None = None,
    ) -> None:
        self._files = files
        self._examples = examples
        self._ends = ends or {}
        if sum(self._ends.values()) >= 1:
            raise ConfigurationError("data 'text': ends: the shares leave nothing for training; lower them")
        if given := sorted(self._ends.keys() & files.keys()):
            raise ConfigurationError(
                f"data 'text': ends: {given[0]!r} has files of its own; remove one of the two"
            )

    def check_columns(self, columns: Sequence[Column]) -> None:
        """Refuses more than a text."""
        require_one_text("text", columns)

    def load(self, columns: Sequence[Column]) -> "DatasetDict":
        """Returns the splits.

        Raises:
            ConfigurationError: The task asks for more than a text.
            DataError: A file cannot be read, or has nothing but white space.
        """
        text = require_one_text("text", columns)
        splits: dict[str, list[LoadedRow | DataError]] = {}
        for split, files in self._files.items():
            for file in one_or_more(files):
                lines = list(read_lines(file))
                parts = self._cut(lines) if split == "train" else {split: lines}
                for name, part in parts.items():
                    splits.setdefault(name, []).extend(self._read(part, file))
        return build(splits, [text], BadRows("refuse"))

    def problems(self, columns: Sequence[Column]) -> Iterator[tuple[Keys, str]]:
        """Yields files that are not there."""
        return missing(placed(self._files))

    def _cut(self, lines: list[str]) -> dict[str, list[str]]:
        """Returns the lines of each split; what is cut off begins within a line."""
        text = "\n".join(lines) + "\n"
        train = round(len(text) * (1 - sum(self._ends.values())))
        validation = train + round(len(text) * self._ends.get("validation", 0))
        parts = {"train": text[:train], "validation": text[train:validation], "test": text[validation:]}
        return {
            name: part.removesuffix("\n").split("\n")
            for name, part in parts.items()
            if name == "train" or name in self._ends
        }

    def _read(self, lines: Iterable[str], file: Path) -> Iterator[LoadedRow | DataError]:
        if self._examples == "file":
            text = "\n".join(lines) + "\n"
            if not text.strip():
                yield DataError(f"{file}: has nothing but white space, expected text")
            else:
                yield LoadedRow((text,), str(file))
            return
        paragraph: list[str] = []
        for number, line in enumerate([*lines, ""], start=1):
            if line.strip() and self._examples == "line":
                yield LoadedRow((line,), f"{file}:{number}")
            elif line.strip():
                paragraph.append(line)
            elif paragraph:
                yield LoadedRow(("\n".join(paragraph),), f"{file}:{number - len(paragraph)}")
                paragraph = []
