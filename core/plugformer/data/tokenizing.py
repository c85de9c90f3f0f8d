"""A task's tokenizers: made, trained, kept in files, and applied to examples."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import ClassLabel, Dataset, Features

from plugformer.configuration.task import Task
from plugformer.creation import create_task_type
from plugformer.data.arrow_files import ROWS, write_arrow
from plugformer.data.columns import Texts
from plugformer.data.encoding import ENCODED
from plugformer.data.fingerprints import files_version
from plugformer.data.vocabularies import Vocabularies
from plugformer.errors import DataError, ExampleError
from plugformer.interfaces import Examples, Tokenizer, Tokenizers
from plugformer.kinds import Kind
from plugformer.registry import Registry


def create_tokenizers(task: Task, registry: Registry) -> Tokenizers:
    """Returns new tokenizers of source and target, neither trained nor loaded."""
    blocks = task.tokenizer
    source: Tokenizer = registry.create(Kind.TOKENIZER, blocks.source.name, **blocks.source.options)
    if has_one(task, registry):
        return Tokenizers(source, source)
    target: Tokenizer = registry.create(Kind.TOKENIZER, blocks.target.name, **blocks.target.options)
    return Tokenizers(source, target)


def has_one(task: Task, registry: Registry) -> bool:
    """Returns whether one tokenizer serves all of a task: it is shared, or there is only one side."""
    sides = {column.tokenizer for column in create_task_type(task, registry).columns}
    return task.tokenizer.shared or "target" not in sides


def learn_tokenizers(task: Task, registry: Registry, train: Dataset) -> Tokenizers:
    """Returns tokenizers of source and target, trained on the training examples."""
    tokenizers = create_tokenizers(task, registry)
    columns = create_task_type(task, registry).columns
    of = {
        side: [column.name for column in columns if column.tokenizer == side] for side in ("source", "target")
    }
    if tokenizers.target is tokenizers.source:
        tokenizers.source.train(Texts(train, *of["source"], *of["target"]))
    else:
        tokenizers.source.train(Texts(train, *of["source"]))
        tokenizers.target.train(Texts(train, *of["target"]))
    return tokenizers


def tokenizers_of_run(task: Task, registry: Registry) -> Tokenizers | None:
    """Returns tokenizers with what those of another run have learned; None if the task names none.

    Raises:
        RunError: A file is missing or damaged.
    """
    if task.tokenizer.run is None:
        return None
    run = Path(task.tokenizer.run)
    tokenizers = create_tokenizers(task, registry)
    tokenizers.source.load(learned_by(run, "source"))
    if tokenizers.target is not tokenizers.source:
        tokenizers.target.load(learned_by(run, "target"))
    return tokenizers


def learned_by(run: Path, side: str) -> Path:
    """Returns the file with what a run's tokenizer of one side has learned."""
    own = run / f"tokenizer-{side}.json"
    return own if own.exists() else run / "tokenizer-shared.json"


def save_tokenizers(tokenizers: Tokenizers, folder: Path) -> dict[str, str]:
    """Writes what tokenizers have learned into a folder and returns a hash of it for each side."""
    source, target = tokenizers
    sides = {"source": source} if source is target else {"source": source, "target": target}
    for side, tokenizer in sides.items():
        tokenizer.save(_file(folder, side))
    return {side: files_version([_file(folder, side)]) for side in sides}


def load_tokenizers(tokenizers: Tokenizers, folder: Path) -> Tokenizers:
    """Reads what `save_tokenizers` wrote into tokenizers that have learned nothing yet, and returns them.

    Raises:
        RunError: A file is missing or damaged.
    """
    source, target = tokenizers
    source.load(_file(folder, "source"))
    if target is not source:
        target.load(_file(folder, "target"))
    return tokenizers


def encode_to_file(
    file: Path, data: Dataset, vocabularies: Vocabularies, place: Callable[[int], str]
) -> Dataset:
    """Writes examples to an Arrow file, with what the task's type makes of them.

    Args:
        file: Where to.
        data: The examples.
        vocabularies: Of the task.
        place: Returns where a row stands, if the examples do not say so themselves.

    Returns:
        What was written without its numbers: the columns that the task has.

    Raises:
        DataError: An example cannot be encoded.
    """
    named = [column.name for column in vocabularies.task_type.columns]
    kept = data.select_columns([name for name in named if name in data.column_names])
    tables = _encoded(data, kept, vocabularies, place)
    first = next(tables)
    numbers = {
        name: feature
        for name, feature in Features.from_arrow_schema(first.schema).items()
        if name.startswith(ENCODED)
    }
    write_arrow(file, chain([first], tables), Features({**kept.features, **numbers}))
    return kept


def encode(examples: Examples, vocabularies: Vocabularies) -> dict[str, pa.Array]:
    """Returns the columns of what a task's type makes of examples."""
    encoded = vocabularies.task_type.encode(examples, vocabularies.tokenizers)
    return {ENCODED + name: _array(values) for name, values in encoded.items()}


def _encoded(
    data: Dataset, kept: Dataset, vocabularies: Vocabularies, place: Callable[[int], str]
) -> Iterator[pa.Table]:
    classes = {
        name: feature.names for name, feature in kept.features.items() if isinstance(feature, ClassLabel)
    }
    for number, table in enumerate(kept.with_format("arrow").iter(ROWS)):
        examples = {name: table.column(name).to_pylist() for name in table.column_names}
        for name, names in classes.items():
            examples[name] = [names[each] for each in examples[name]]
        try:
            columns = encode(examples, vocabularies)
        except ExampleError as error:
            row = number * ROWS + error.row
            where = data[row]["place"] if "place" in data.column_names else place(row)
            raise DataError(f"{where}: {error}") from error
        for name, array in columns.items():
            table = table.append_column(name, array)
        yield table


def _array(values: Sequence[Any]) -> pa.Array:
    """Returns numbers, or lists of them, as narrow as tokens allow."""
    found = pa.array(values)
    if pa.types.is_null(found.type) or (
        pa.types.is_list(found.type) and pa.types.is_null(found.type.value_type)
    ):
        return found.cast(pa.list_(pa.int32()))  # no tokens at all
    if pa.types.is_list(found.type) and pa.types.is_integer(found.type.value_type):
        return found.cast(pa.list_(pa.int32()))
    return found


def _file(folder: Path, side: str) -> Path:
    return folder / f"tokenizer-{side}.json"
