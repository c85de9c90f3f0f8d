"""From a task to examples ready for a model: read, split, tokenized, limited in length."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets
from datasets import Dataset, DatasetDict
from pydantic import ValidationError

from plugformer.data.arrow import Texts, encode_to_file, limited, mapped
from plugformer.data.encoding import EncodedSplit
from plugformer.data.files import SplitStats, fingerprint
from plugformer.data.prepared_cache import PreparedEntry, cache_key, data_version, fingerprints
from plugformer.data.processor import (
    Processor,
    create_tokenizers,
    load_processor,
    load_tokenizers,
)
from plugformer.data.splitting import overlaps, refuse_other_classes, refuse_other_order, split
from plugformer.errors import ConfigurationError, DataError, RegistryError
from plugformer.experiment import Experiment
from plugformer.interfaces import as_text
from plugformer.interfaces.data import Data
from plugformer.registry import Kind
from plugformer.registry.options import keys_of, options_model


@dataclass(frozen=True)
class PreparedData:
    """A task's examples as a model reads them.

    Attributes:
        splits: `train`, `validation` and the tests, by name; without `train` if that is streamed.
        processor: What was learned from the training examples.
        lengths: Counts of the examples of each split.
        hashes: A hash of the content of each split before it was tokenized; of one that is streamed, of the
            version of the data.
        notices: Messages for people about the preparation.
        batches: If training examples are streamed, returns the `plugformer.training.BatchStream` of a
            training: of the function from the lengths of some examples and a seed to batches, of the
            `TrainingSettings` and of the `Processes`.
    """

    splits: dict[str, EncodedSplit]
    processor: Processor
    lengths: dict[str, SplitStats]
    hashes: dict[str, str]
    notices: tuple[str, ...] = ()
    batches: Callable[..., Any] | None = None


TextSplits = tuple[DatasetDict, Callable[[], Dataset], Sequence[str]]
"""Examples as text: what is to be prepared, what returns those that tokenizers learn from, and notices."""


def prepare(
    experiment: Experiment,
    processor: Processor | None = None,
    read: Callable[[], TextSplits] | None = None,
) -> PreparedData:
    """Reads a task's data, learns a processor unless one is given, and encodes all examples.

    The cache keeps prepared examples as long as data, options and code stay the same. Length limits apply
    afterwards. `plugformer.hooks.prepared_data` does the same, and serves tasks that stream too.

    Args:
        experiment: Its task type gets what it learns from the training examples.
        processor: Learned from the training examples if None; the tokenizers may come from another run.
        read: Reads the examples; those of the data component, split as the task says, if None.

    Raises:
        ConfigurationError: An option of the data or the tokenizers is wrong.
        DataError: The data cannot be read, or an example is too long and the task refuses it.
        RegistryError: A component is unknown, or does not give what its interface promises.
    """
    columns = experiment.task_type.columns
    with quiet():
        before = data_version(experiment)
        entry, learned = _entry(experiment, processor, before, read or partial(_read, experiment))
        splits, lengths = {}, {}
        for name, examples in entry.splits.items():

            def place(row: int, name: str = name, examples: Dataset = examples) -> str:
                beginning = as_text(examples[row][columns[0].name])[:40]
                return f"{name}, example {row + 1} ({beginning!r})"

            splits[name], lengths[name] = limited(examples, experiment, learned, place)
            if len(splits[name]) == 0:
                raise DataError(
                    f"{name}: all of its {len(examples)} examples are longer than the limit, the longest "
                    f"side has {lengths[name].longest} tokens; raise model.max_length or data.length.max"
                )
    # Of a split that is streamed nothing but the version is known.
    return PreparedData(splits, learned, lengths, {"train": before, **entry.hashes}, tuple(entry.notices))


def _entry(
    experiment: Experiment,
    given: Processor | None,
    before: str,
    read: Callable[[], TextSplits],
) -> tuple[PreparedEntry, Processor]:
    """Returns the prepared examples, from the cache if they are there, and the processor."""
    key = cache_key(experiment, before)
    keys, learned = [] if key is None else [key], None
    if key is not None and given is not None:
        with TemporaryDirectory() as folder:
            learned = fingerprints(given, Path(folder))
        keys.append(fingerprint(key, *learned.values()))
    for stored_key in keys:
        entry = PreparedEntry.find(stored_key)
        if entry is not None and learned in (None, entry.learned):
            return entry, given or load_processor(experiment, entry.folder, entry.task_type)
    splits, train, notices = read()
    if data_version(experiment) != before:
        raise DataError(
            f"the files of data {experiment.task.data.name!r} changed during reading; "
            "start again when they are complete"
        )
    if given is not None:
        columns, first = given.task_type.columns, next(iter(splits.values()))
        refuse_other_order(first.features, columns, given.classes)
    processor = given or learn_processor(experiment, train())
    shared = overlaps(splits, processor.task_type.columns)
    return PreparedEntry.make(keys[-1] if keys else None, splits, processor, [*notices, *shared]), processor


def learn_processor(experiment: Experiment, train: Dataset) -> Processor:
    """Learns the tokenizers and the task type's state from the training examples."""
    task, task_type = experiment.task, experiment.task_type
    task_type.state = task_type.learn(train)
    tokenizers = create_tokenizers(experiment)
    if task.tokenizer.run is not None:
        load_tokenizers(tokenizers, Path(task.tokenizer.run))
    else:
        source, target = (
            [column.name for column in task_type.columns if column.tokenizer == side]
            for side in ("source", "target")
        )
        if tokenizers.target is tokenizers.source:
            tokenizers.source.train(Texts(train, *source, *target))
        else:
            tokenizers.source.train(Texts(train, *source))
            tokenizers.target.train(Texts(train, *target))
    return Processor(*tokenizers, task_type)


def _read(experiment: Experiment) -> TextSplits:
    """Returns a task's examples as text, split as the task says.

    Raises:
        DataError: The data cannot be read, or a split is missing or empty.
        RegistryError: The component does not give the columns or classes that the task's type has.
    """
    task, component, columns = experiment.task, experiment.data, experiment.task_type.columns
    examples = component.load(columns)
    needed = [column.name for column in columns if not column.optional]
    for name, data in examples.items():
        if len(data) == 0:
            raise DataError(f"data {task.data.name!r}: split {name!r} has no examples; check its files")
        if missing := sorted(set(needed) - set(data.column_names)):
            raise RegistryError(
                f"data {task.data.name!r} gave split {name!r} without the columns {missing}, only "
                f"{sorted(data.column_names)}; a {task.type.name} task needs {needed}"
            )
    splits = split(examples, task.data.split, columns)
    refuse_other_classes({name: data.features for name, data in splits.items()}, columns)
    return splits, lambda: splits["train"], component.notices()


@contextmanager
def quiet() -> Iterator[None]:
    """Turns the progress bars of `datasets` off inside the block."""
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


def read_files(
    files: Sequence[Path], experiment: Experiment, processor: Processor
) -> tuple[EncodedSplit, SplitStats, Sequence[str]]:
    """Reads examples from other files with the options of a task's data component.

    The files are one, two parallel ones, or several that follow one another. Also returns the counts of the
    examples and the notices of the component.

    Raises:
        ConfigurationError: The data component reads no files, or not these.
        DataError: A file is malformed, has a label that is not a class, or an example that is too long and
            the task refuses it.
    """
    task, registry = experiment.task, experiment.registry
    name = ", ".join(map(str, files))
    # A component without the option `labels` takes the classes from its training files. The split is not
    # called `test`, because a component may cut a split of that name off the training files.
    named = processor.classes is None or "labels" in task.data.options
    part = "test_files" if named else "train"
    options = _with_files(files, part, experiment)
    if "labels" in options and options["labels"] is None:
        options["labels"] = processor.classes
    data: Data = registry.create(Kind.DATA, task.data.name, **options)
    return _encoded(data, part, name, experiment, processor)


def _encoded(
    data: Data, part: str, name: str, experiment: Experiment, processor: Processor
) -> tuple[EncodedSplit, SplitStats, Sequence[str]]:
    """Returns a split of other data as the model reads it; error messages call the data `name`."""
    task_type = processor.task_type
    with quiet():
        examples = data.load(task_type.columns)[part]
        refuse_other_order(examples.features, task_type.columns, processor.classes)
        if len(examples) == 0:
            raise DataError(f"{name}: no examples; check the file")

        def place(row: int) -> str:
            return f"{name}, example {row + 1}"

        encoded = mapped(lambda file: encode_to_file(file, examples, processor, place))
    split, count = limited(encoded, experiment, processor, place)
    if len(split) == 0:
        raise DataError(f"{name}: all examples are longer than the limit of the run's task")
    return split, count, data.notices()


def read_rows(
    rows: Any, experiment: Experiment, processor: Processor
) -> tuple[EncodedSplit, SplitStats, Sequence[str]]:
    """Like `read_files`, but with rows in memory, which have the columns of the task.

    Raises:
        DataError: A row is malformed, has a label that is no class, or is too long and the task refuses it.
    """
    block = experiment.task.data
    options = block.options if block.name == "memory" else {}
    data: Data = experiment.registry.create(Kind.DATA, "memory", **{**options, "labels": processor.classes})
    data.rows = {"rows": rows}
    return _encoded(data, "rows", "the rows", experiment, processor)


def _with_files(files: Sequence[Path], split: str, experiment: Experiment) -> dict[str, Any]:
    """Returns the options of a task's data with other files as the only split."""
    task, name = experiment.task, experiment.task.data.name
    model = options_model(experiment.registry.load(Kind.DATA, name))
    if "files" not in keys_of(model):
        raise ConfigurationError(
            f"data {name!r} has no option 'files', so that it cannot read others; "
            "change its own options with --set data.OPTION=VALUE"
        )
    paths = [str(file.absolute()) for file in files]
    forms: list[object] = [paths[0]] if len(paths) == 1 else [paths]
    if len(paths) == 2:
        forms = [dict(zip(("source", "target"), paths, strict=True)), *forms]
    for form in forms:
        options = {**task.data.options, "files": {split: form}}
        with suppress(ValidationError):
            model.model_validate(options)
            return options
    raise ConfigurationError(
        f"data {name!r} cannot read {len(paths)} file{'s' * (len(paths) > 1)} as a split: "
        f"{', '.join(map(str, files))}; parallel files are two, source before target"
    )
