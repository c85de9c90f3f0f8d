"""Files of answers that grow by portions: text, CSV, JSON lines and Parquet.

What has been written can be cut off behind any portion, and what follows appended.
"""

import csv
import gzip
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugformer.errors import ConfigurationError, DataError
from plugformer_cli.answer_printer import one_line
from plugformer_cli.questions import TABLES, ending

if TYPE_CHECKING:
    from pyarrow import Schema, Table

Row = Mapping[str, Any]
"""The cells of a row: those of the question, then those of its answer."""


class AnswerFile(ABC):
    """The form of a file of answers."""

    def head(self) -> bytes:
        """Returns what begins the file, by default nothing."""
        return b""

    @abstractmethod
    def portion(self, rows: Sequence[Row]) -> bytes:
        """Returns some rows."""

    def finish(self, part: Path, out: Path) -> None:
        """Makes a file out of all portions, which are in `part`."""
        part.replace(out)


class TextFile(AnswerFile):
    """A line for each output, `n_best` for each row; with its probability and a tab in front, or without."""

    def __init__(self, n_best: int, *, scores: bool) -> None:
        self._n_best = n_best
        self._scores = scores

    def portion(self, rows: Sequence[Row]) -> bytes:
        """Returns the lines."""
        return "".join(f"{line}\n" for row in rows for line in self._lines(row)).encode(errors="replace")

    def _lines(self, row: Row) -> Iterator[str]:
        from plugformer.interfaces import as_text

        outputs = [row] * (row["prediction"] is not None) + list(row.get("alternatives") or ())
        for output in outputs:
            probability = output.get("probability")
            written = "" if probability is None else format(probability, ".4g")
            text = one_line(as_text(output["prediction"]))
            yield f"{written}\t{text}" if self._scores else text
        yield from [""] * (self._n_best - len(outputs))


class JsonLines(AnswerFile):
    """An object on each line."""

    def portion(self, rows: Sequence[Row]) -> bytes:
        """Returns the lines."""
        lines = (json.dumps(row, ensure_ascii=False, default=str) for row in rows)
        return "".join(f"{line}\n" for line in lines).encode(errors="replace")


class SeparatedFile(AnswerFile):
    """Comma- or tab-separated cells, the names of the columns first; lists and objects are JSON.

    With tabs, double quotes have no meaning, and spaces replace tabs and ends of lines in cells.
    """

    def __init__(self, columns: Sequence[str], delimiter: str) -> None:
        self._columns = columns
        self._delimiter = delimiter

    def head(self) -> bytes:
        """Returns the names of the columns."""
        return self._written([list(self._columns)])

    def portion(self, rows: Sequence[Row]) -> bytes:
        """Returns the lines.

        Raises:
            DataError: A row has a column that the first row lacks.
        """
        for row in rows:
            if other := row.keys() - {*self._columns}:
                message = f"a row has the column {min(other)!r}, which the first row lacks"
                raise DataError(f"{message}; give --out a name that ends in .jsonl or .parquet")
        return self._written([[_cell(row.get(name)) for name in self._columns] for row in rows])

    def _written(self, rows: Sequence[Sequence[str]]) -> bytes:
        if self._delimiter == "\t":
            lines = ("\t".join(one_line(cell).replace("\t", " ") for cell in cells) for cells in rows)
            return "".join(f"{line}\n" for line in lines).encode(errors="replace")
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue().encode(errors="replace")


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return "" if value is None else str(value)


class ParquetFile(AnswerFile):
    """A row group for each portion. Before the file is complete, portions are Arrow streams."""

    _schema: "Schema | None" = None

    def portion(self, rows: Sequence[Row]) -> bytes:
        """Returns the rows as an Arrow stream with a schema of its own.

        Raises:
            DataError: A column has values of different types.
        """
        import pyarrow

        names = dict.fromkeys(name for row in rows for name in row)
        buffer = io.BytesIO()
        try:
            table = pyarrow.table({name: [_encodable(row.get(name)) for row in rows] for name in names})
            self._schema = _unified(self._schema or table.schema, table.schema)  # an error comes at once
        except pyarrow.ArrowException as error:
            raise _mixed(error) from error
        with pyarrow.ipc.new_stream(buffer, table.schema) as stream:
            stream.write_table(table)
        return buffer.getvalue()

    def finish(self, part: Path, out: Path) -> None:
        """Writes the portions as one table with the columns of all.

        Raises:
            DataError: A column has values of different types in different portions.
        """
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        from plugformer.runs import replacing

        schema = pyarrow.schema([])
        try:
            for table in _portions(part):
                schema = _unified(schema, table.schema)
        except pyarrow.ArrowException as error:
            raise _mixed(error) from error
        for place, column in enumerate(schema):  # many readers know no columns without a type
            if pyarrow.types.is_null(column.type):
                schema = schema.set(place, column.with_type(pyarrow.string()))
        with replacing(out) as temporary, ParquetWriter(temporary, schema) as writer:
            for table in _portions(part):
                both = [schema.empty_table(), table]
                writer.write_table(pyarrow.concat_tables(both, promote_options="permissive"))
        part.unlink()


def _unified(one: "Schema", other: "Schema") -> "Schema":
    import pyarrow

    return pyarrow.unify_schemas([one, other], promote_options="permissive")


def _portions(part: Path) -> "Iterator[Table]":
    import pyarrow

    size = part.stat().st_size
    with part.open("rb") as file:
        while file.tell() < size:
            with pyarrow.ipc.open_stream(file) as stream:
                yield stream.read_all()


def _encodable(value: Any) -> Any:
    """Returns a value; a text without what is not Unicode."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _mixed(error: Exception) -> DataError:
    return DataError(
        f"a column of --out has values of different types: {error}; give it a name that ends in .jsonl"
    )


class Zipped(AnswerFile):
    """Another form, in which each portion is compressed by itself: gzip reads them as one file."""

    def __init__(self, form: AnswerFile) -> None:
        self._form = form

    def head(self) -> bytes:
        """Returns what begins the file, compressed."""
        return gzip.compress(self._form.head(), mtime=0)

    def portion(self, rows: Sequence[Row]) -> bytes:
        """Returns the compressed rows."""
        return gzip.compress(self._form.portion(rows), mtime=0)


def answer_file(out: Path, columns: Sequence[str], n_best: int, *, scores: bool) -> AnswerFile:
    """Returns the form of a file of answers with these columns, by the ending of its name."""
    forms = {
        ".txt": lambda: TextFile(n_best, scores=scores),
        ".csv": lambda: SeparatedFile(columns, ","),
        ".tsv": lambda: SeparatedFile(columns, "\t"),
        ".jsonl": JsonLines,
        ".parquet": ParquetFile,
    }
    form = forms[ending(out)]()
    return Zipped(form) if out.suffix == ".gz" else form


def refuse_form(out: Path) -> None:
    """Raises ConfigurationError unless the name of a file of answers says its form."""
    known = (".txt", *TABLES)
    if ending(out) not in known or out.name.endswith(".parquet.gz"):
        raise ConfigurationError(
            f"--out {out}: unknown ending; expected {', '.join(known)}, all but .parquet also with .gz"
        )
