"""A task's tokenizers: made, trained, kept in files, and applied to examples."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from datasets import Dataset, Features

from plugformer.configuration.task import Task
from plugformer.data.arrow_files import ROWS, write_arrow
from plugformer.data.columns import Texts
from plugformer.data.encoding import SPECIALS, TOKENS
from plugformer.data.fingerprints import files_version
from plugformer.interfaces.data import TaskType
from plugformer.interfaces.tokenizer import Tokenizer
from plugformer.kinds import Kind
from plugformer.registry import Registry

Tokenizers = tuple[Tokenizer, Tokenizer]
"""Of source and target; one object where they share a vocabulary, or where the output is a label."""


def create_tokenizers(task: Task, registry: Registry) -> Tokenizers:
    """Returns new tokenizers of source and target, neither trained nor loaded."""
    blocks = task.tokenizer
    source: Tokenizer = registry.create(Kind.TOKENIZER, blocks.source.name, **blocks.source.options)
    if blocks.shared or TaskType(task.type) is TaskType.CLASSIFICATION:
        return source, source
    return source, registry.create(Kind.TOKENIZER, blocks.target.name, **blocks.target.options)


def learn_tokenizers(task: Task, registry: Registry, train: Dataset) -> Tokenizers:
    """Returns tokenizers of source and target, trained on the training examples."""
    source, target = create_tokenizers(task, registry)
    first, second = TaskType(task.type).columns
    if TaskType(task.type) is TaskType.CLASSIFICATION:
        source.train(Texts(train, first))
    elif target is source:
        source.train(Texts(train, first, second))
    else:
        source.train(Texts(train, first))
        target.train(Texts(train, second))
    return source, target


def tokenizers_of_run(task: Task, registry: Registry) -> Tokenizers | None:
    """Returns tokenizers with what those of another run have learned; None if the task names none.

    Raises:
        RunError: A file is missing or damaged.
    """
    if task.tokenizer.run is None:
        return None
    run = Path(task.tokenizer.run)
    source, target = create_tokenizers(task, registry)
    source.load(learned_by(run, "source"))
    if target is not source:
        target.load(learned_by(run, "target"))
    return source, target


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


def encode_to_file(file: Path, data: Dataset, task_type: TaskType, tokenizers: Tokenizers) -> Dataset:
    """Writes examples to an Arrow file, each text column with its token numbers as `<column>_tokens`.

    Returns:
        What was written, without token numbers: of the columns those that a task has, and `references`.
    """
    sides = zip(task_type.columns, tokenizers, strict=True)
    encoders = {column: tokenizer for column, tokenizer in sides if column in SPECIALS}
    kept = [name for name in (*task_type.columns, "references") if name in data.column_names]
    features = {name: data.features[name] for name in kept} | {f"{name}_tokens": TOKENS for name in encoders}
    chosen = data.select_columns(kept)
    write_arrow(file, _encoded(chosen, encoders), Features(features))
    return chosen


def _encoded(data: Dataset, encoders: dict[str, Tokenizer]) -> Iterator[pa.Table]:
    for table in data.with_format("arrow").iter(ROWS):
        for column, tokenizer in encoders.items():
            rows = tokenizer.encode(table.column(column).to_pylist())
            table = table.append_column(f"{column}_tokens", pa.array(rows, pa.list_(pa.int32())))
        yield table


def _file(folder: Path, side: str) -> Path:
    return folder / f"tokenizer-{side}.json"
