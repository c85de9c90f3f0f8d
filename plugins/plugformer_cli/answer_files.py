"""Files of answers: one that grows while the model answers, and what is made of it at the end.

The first has a record on each line, whatever the second is: text, CSV, JSON lines or Parquet. An interrupted
command continues it after the last line that is sound.
"""

import codecs
import csv
import gzip
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError, DataError, RunError
from plugformer_cli.answering import lines, one_line, prediction_of
from plugformer_cli.questions import Question, ending, portions

if TYPE_CHECKING:
    from plugformer.interfaces import TaskType

Row = Mapping[str, Any]
"""The cells of a row by column."""


class UnfinishedAnswers:
    """The file `OUT.part`: what was requested, then a record for each row that is complete.

    Args:
        out: The file that will be made of it.
        requested: What the answers depend on, by name; a hash of a file.

    Attributes:
        rows: Number of rows that are complete.
    """

    def __init__(self, out: Path, requested: Mapping[str, Any]) -> None:
        self.file = out.with_name(f"{out.name}.part")
        self.rows = 0
        self._out = out
        self._requested = json.loads(json.dumps(requested))  # as it is read again

    def begin(self, *, resume: bool) -> bool:
        """Makes the file, or cuts off what is incomplete or damaged; False if `out` is complete.

        Raises:
            ConfigurationError: There is a file and no `resume`; or something else was requested.
            RunError: The file cannot be written.
        """
        if self._out.exists() and not resume:
            raise ConfigurationError(f"--out {self._out} exists; delete it, or choose another")
        if self.file.exists() and not resume:
            raise ConfigurationError(
                f"{self.file} holds answers of an interrupted command; add --resume, or delete it"
            )
        sound = self._sound_lines()
        size, head = next(sound, (0, {}))
        if size and head.get("requested") != self._requested:
            before = dict(head.get("requested") or {})
            changed = [name for name, value in self._requested.items() if before.get(name) != value]
            raise ConfigurationError(
                f"--resume: {self.file} was begun with another {', '.join(changed)}\n"
                "write the same command as before, or delete the file"
            )
        if self._out.exists():
            return False
        for length, _ in sound:
            size += length
            self.rows += 1
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.touch()
        os.truncate(self.file, size)
        if not size:
            self._append([{"requested": self._requested}])
        return True

    def _sound_lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the bytes and the object of each line, before the first that is no whole object."""
        if not self.file.exists():
            return
        with self.file.open("rb") as stream:
            for line in stream:
                try:
                    value = json.loads(line)
                except ValueError:
                    return
                if not isinstance(value, dict) or not line.endswith(b"\n"):
                    return
                yield len(line), value

    def save(self, records: Sequence[dict[str, Any]]) -> None:
        """Appends the records of complete rows.

        Raises:
            RunError: They cannot be written; what was complete before is kept.
        """
        self._append([{name: found[name] for name in found if name != "input"} for found in records])
        self.rows += len(records)

    def _append(self, values: Sequence[dict[str, Any]]) -> None:
        try:
            with self.file.open("ab") as stream:
                stream.write("".join(f"{json.dumps(value)}\n" for value in values).encode())
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise RunError(
                f"{self.file} cannot be written: {error.strerror or error}; {self.rows:,} rows are complete: "
                "make room, then continue with --resume"
            ) from error

    def records(self) -> Iterator[dict[str, Any]]:
        """Yields the records; none if there is no file."""
        return (value for _, value in islice(self._sound_lines(), 1, None))


@dataclass(frozen=True)
class AnswerFile:
    """A complete file of answers, with a line or a row for each question.

    Attributes:
        out: The file. Its ending says the form.
        answer: Of `prediction`, `probability`, `alternatives`, `probabilities`, `spans` and `error` those
            that answers have. A column of the questions with one of these names becomes `input_NAME`.
        task_type: Of the model.
        n_best: Lines of text for each question.
        scores: Whether these begin with the probability and a tab.
        file: Of the questions. If it is Parquet, so are the types of its columns in another Parquet file.
    """

    out: Path
    answer: Sequence[str]
    task_type: "TaskType"
    n_best: int
    scores: bool
    file: Path

    def write(self, columns: Sequence[str], answers: Iterable[tuple[Question, dict[str, Any]]]) -> None:
        """Writes the file in one step.

        Args:
            columns: Names of the columns of the questions.
            answers: All questions with the records of their answers.

        Raises:
            DataError: A column of Parquet has values of different types.
            RunError: The file cannot be written.
        """
        if ending(self.out) == ".txt":
            found = chain.from_iterable(lines(found, self.n_best, scores=self.scores) for _, found in answers)
            with _writing(self.out) as text:
                text.writelines(f"{line}\n" for line in found)
        else:
            names: dict[str, str] = {}
            taken = {*columns, *self.answer}
            for name in columns:
                names[name] = name
                while names[name] in self.answer or (names[name] != name and names[name] in taken):
                    names[name] = f"input_{names[name]}"
                taken.add(names[name])
            cells = (self._row(names, *each) for each in answers)
            write_table(self.out, [*names.values(), *self.answer], cells, self._types(names))

    def _types(self, names: Mapping[str, str]) -> dict[str, Any]:
        if {ending(self.out), ending(self.file)} != {".parquet"}:
            return {}
        from pyarrow import parquet

        return {names[field.name]: field.type for field in parquet.read_schema(self.file)}

    def _row(self, names: Mapping[str, str], question: Question, found: Mapping[str, Any]) -> Row:
        """Returns the cells of a row: those of the question, then those of its answer."""
        row: dict[str, Any] = {"prediction": found["output"], "error": found.get("error")}
        if "score" in found:
            row["probability"] = prediction_of(found).probability
            row["alternatives"] = [
                {"prediction": other["output"], "probability": prediction_of(other).probability}
                for other in found.get("alternatives", ())
            ]
            row["probabilities"] = found.get("probabilities")
        if "spans" in self.answer and found["output"] is not None:
            asked: Any = question.asked
            example = self.task_type.example_from_text(asked) if isinstance(asked, str) else asked
            row["spans"] = self.task_type.spans(example, found["output"])
        cells = {names[name]: cell for name, cell in question.cells.items()}
        return cells | {name: row.get(name) for name in self.answer}


def check_form(option: str, out: Path, known: Sequence[str]) -> None:
    """Raises ConfigurationError unless the name of a file, perhaps with .gz, has one of the known endings."""
    if ending(out) not in known or out.name.endswith(".parquet.gz"):
        raise ConfigurationError(
            f"{option} {out}: unknown ending; expected {', '.join(known)}, all but .parquet also with .gz"
        )


def write_table(
    file: Path, names: Sequence[str], rows: Iterable[Row], types: Mapping[str, Any] | None = None
) -> None:
    """Writes rows in one step, in the form that the file's name says; see `TABLES`.

    Args:
        file: It is replaced.
        names: Of the columns.
        rows: By column.
        types: Types of columns in Parquet, where these do not follow from the values.

    Raises:
        DataError: A column of Parquet has values of different types, or an integer of more than 64 bits.
        RunError: The file cannot be written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    form = ending(file)
    if form == ".parquet":
        write_parquet(file, names, rows, types or {})
        return
    with _writing(file) as text:
        if form == ".jsonl":
            text.writelines(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
            return
        cells = chain([names], ([_cell(row.get(name)) for name in names] for row in rows))
        if form == ".tsv":  # double quotes have no meaning; spaces replace tabs and ends of lines in cells
            text.writelines(
                "\t".join(one_line(cell).replace("\t", " ") for cell in row) + "\n" for row in cells
            )
        else:
            csv.writer(text, lineterminator="\n").writerows(cells)


@contextmanager
def _writing(file: Path) -> Iterator[io.TextIOWrapper]:
    """Opens a file that replaces another in one step, compressed if its name ends in .gz.

    Raises RunError if that is impossible.
    """
    from plugformer.runs import replacing

    with replacing(file) as temporary, temporary.open("wb") as raw:
        packed = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if file.suffix == ".gz" else raw
        errors = "replace" if ending(file) == ".jsonl" else _restored.__name__
        with io.TextIOWrapper(packed, "utf-8", errors=errors, newline="") as text:
            yield text


def _restored(error: UnicodeError) -> tuple[bytes, int]:
    """Encodes bytes that were not UTF-8 as they were, and other lone surrogates as `?`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return b"".join(
        bytes([ord(each) & 0xFF]) if "\udc80" <= each <= "\udcff" else b"?" for each in found
    ), error.end


codecs.register_error(_restored.__name__, _restored)


def _cell(value: object) -> str:
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return "" if value is None else str(value)


def write_parquet(file: Path, names: Sequence[str], rows: Iterable[Row], types: Mapping[str, Any]) -> None:
    """Writes rows as Parquet; see `write_table`."""
    import pyarrow
    from pyarrow import parquet

    from plugformer.runs import replacing

    def table(rows: Iterable[Row]) -> pyarrow.Table:
        return pyarrow.table(
            {
                name: pyarrow.array([_encodable(row.get(name)) for row in rows], types.get(name))
                for name in names
            }
        )

    try:
        tables = [table([]), *map(table, portions(rows, 2000))]
        whole = pyarrow.concat_tables(tables, promote_options="permissive")
    except (pyarrow.ArrowException, OverflowError) as error:
        raise DataError(
            f"a column of --out has values of different types, or an integer too large: {error}\n"
            "let its name, and that of its .part, end in .jsonl instead, and add --resume"
        ) from error
    for place, column in enumerate(whole.schema):  # many readers know no columns without a type
        if pyarrow.types.is_null(column.type):
            whole = whole.set_column(place, column.name, pyarrow.nulls(len(whole), pyarrow.string()))
    with replacing(file) as temporary:
        parquet.write_table(whole, temporary)


def _encodable(value: Any) -> Any:
    """Returns a value; a text without what is not Unicode."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
