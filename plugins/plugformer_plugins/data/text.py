"""Plain text: what language models learn from."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Column
from plugformer_blocks import read_lines
from plugformer_plugins.data.files import FileData, OneOrMore, SplitName
from plugformer_plugins.data.rows import LoadedRow


class PlainText(FileData):
    """Plain text; each file, paragraph or line is an example.

    Text files, plain or with .gz.
    See https://huggingface.co/docs/datasets/nlp_load.

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
        needed = {column.name: column.holds for column in columns if not column.optional}
        if list(needed.values()) != ["text"]:
            raise ConfigurationError(
                f"data 'text' has one text, and the task needs {' and '.join(needed)}; choose other data"
            )

    def sources(self) -> Mapping[str, Sequence[tuple[str, Path]]]:
        """Returns the files of each split, with its name."""
        files = super().sources()
        files = {**files, **{split: files.get("train", ()) for split in self._ends}}
        return {split: [(split, file) for file in some] for split, some in files.items()}

    def read(self, source: tuple[str, Path], columns: Sequence[Column]) -> Iterator[LoadedRow | DataError]:
        """Yields the examples of a split in a file.

        Raises:
            DataError: The file cannot be read.
        """
        split, file = source
        text = "\n".join(read_lines(file)) + "\n"
        if split in ("train", *self._ends):  # what is cut off begins within a line
            train = round(len(text) * (1 - sum(self._ends.values())))
            validation = train + round(len(text) * self._ends.get("validation", 0))
            ends = {"train": (0, train), "validation": (train, validation), "test": (validation, len(text))}
            start, end = ends[split]
            text = text[start:end].removesuffix("\n") + "\n"
        if self._examples == "file":
            if text.strip():
                yield LoadedRow((text,), str(file))
            else:
                yield DataError(f"{file}: has nothing but white space, expected text")
            return
        paragraph: list[str] = []
        for number, line in enumerate(text.split("\n"), start=1):  # the last one is empty
            if line.strip() and self._examples == "line":
                yield LoadedRow((line,), f"{file}:{number}")
            elif line.strip():
                paragraph.append(line)
            elif paragraph:
                yield LoadedRow(("\n".join(paragraph),), f"{file}:{number - len(paragraph)}")
                paragraph = []
