"""What it costs that training batches have few shapes, by positions that are computed in an epoch.

    PLUGFORMER_DATA=... python benchmarks/shapes.py ud-ewt dates

Nothing is trained. The tasks, by default all that are installed, are prepared, and their batches compared
with those of free shapes: of examples sorted by length, cut wherever a budget of tokens is full; or shuffled,
if `training.batch_size` is set. Positions are rows times length, added up over the sequences of a batch.
"""

import argparse
import sys

import numpy as np

from plugformer.configuration import resolve
from plugformer.configuration.task import DEFAULT_BATCH_TOKENS, TrainingSettings
from plugformer.data import EncodedSplit, PreparedData
from plugformer.data.preparation import prepare
from plugformer.errors import PlugformerError
from plugformer.registry import EntryKind, Registry
from plugformer.training.stream import epochs_of
from plugformer.validation import validate

SHAPES, MORE = 12, 1.05
"""The aims: most shapes of an epoch, and most positions by those of free shapes."""


def free(train: EncodedSplit, settings: TrainingSettings) -> list[tuple[int, ...]]:
    """Returns the shapes of batches of an epoch without a ladder: rows, and the longest of each sequence."""
    lengths, counts = train.lengths, np.broadcast_to(train.counts, train.lengths.shape)
    if settings.batch_size is not None:
        shuffled = np.random.default_rng([settings.seed, 0]).permutation(len(train))
        chunks = np.split(shuffled, range(settings.batch_size, len(train), settings.batch_size))
        return [(len(rows), *lengths[rows].max(axis=0).tolist()) for rows in chunks]
    tokens, shapes = settings.batch_tokens or DEFAULT_BATCH_TOKENS, []
    rows, longest, numbers = 0, 0 * lengths[0], 0 * counts[0]
    for row in np.lexsort((lengths * counts).T[::-1]):
        longer, more = np.maximum(longest, lengths[row]), numbers + counts[row]
        if rows and (longer * more).sum() > tokens:
            shapes.append((rows, *longest.tolist()))
            rows, longer, more = 0, lengths[row], counts[row]
        rows, longest, numbers = rows + 1, longer, more
    return [*shapes, (rows, *longest.tolist())]


def rungs(data: PreparedData, settings: TrainingSettings, epoch: int) -> list[tuple[int, ...]]:
    """Returns the shapes of the batches of an epoch."""
    epochs = epochs_of(settings, data)
    return [] if epochs is None else [(len(rows), *lengths) for rows, lengths in epochs(epoch)]


def computed(shapes: list[tuple[int, ...]]) -> int:
    """Returns rows times lengths, added up."""
    return sum(rows * sum(lengths) for rows, *lengths in shapes)


def main() -> None:
    """Prints a row for each task, and fails if shapes are not the same in another epoch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    names = [entry.name for entry in Registry.discover().entries(EntryKind.TASK)]
    print("| task | real tokens | positions, free | shapes, free | positions | shapes | by free ones |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in parser.parse_args().tasks or names:
        try:
            experiment = validate(resolve(name))
            data = prepare(experiment)
        except PlugformerError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        train, settings = data.splits["train"], experiment.task.training
        before, shapes = free(train, settings), rungs(data, settings, 0)
        if sorted(shapes) != sorted(rungs(data, settings, 1)):
            sys.exit(f"{name}: the shapes of the second epoch are others")
        ratio = computed(shapes) / computed(before)
        missed = " (missed)" * (len(set(shapes)) > SHAPES or ratio > MORE)
        cells = [name, f"{train.lengths.sum():,}", f"{computed(before):,}", f"{len(set(before))}"]
        cells += [f"{computed(shapes):,}", f"{len(set(shapes))}", f"{ratio:.3f}{missed}"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
