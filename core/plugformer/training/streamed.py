"""Training batches from data that are read meanwhile."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from plugformer.data.blocks import BlockReader, Order, Place
from plugformer.data.streaming import ReadCount, StreamedExamples
from plugformer.distributed import Processes
from plugformer.errors import RunError
from plugformer.interfaces.batch import Batch
from plugformer.runs.checkpoint import Progress
from plugformer.training.stream import BatchStream, Share


class StreamedBatches(BatchStream):
    """Goes through streamed examples, pass after pass.

    Each batch of an update comes from a share of the stream of its own. So the batches of an update are the
    same for any number of processes, which read only the shares of the batches that they compute.

    Args:
        examples: The stream.
        order: Makes batches of a block of them.
        seed: Of what is drawn for examples anew in each pass.
    """

    def __init__(self, examples: StreamedExamples, *, order: Order, seed: int) -> None:
        self._examples = examples
        self._order = order
        self._seed = seed
        self._readers: dict[int, BlockReader] = {}
        self._count = 0
        self._background = ThreadPoolExecutor(max_workers=1)  # tokenizers use several cores by themselves

    def next(self, progress: Progress, count: int, processes: Processes) -> Share:
        """Returns this process's batches of the next update.

        Raises:
            DataError: A row is malformed, or no example can be used.
            RunError: The place in the stream belongs to other data or to another number of batches.
        """
        self._count = count
        own = list(processes.share(range(count)))
        spare = [0] if len(own) * processes.count < count else []
        with processes.together():
            batches = [self._next(number, progress) for number in own + spare]
        progress.epoch = max(reader.place.passes for reader in self._readers.values())
        return Share(batches[: len(own)], batches[len(own) :])

    def describe(self, row: int) -> str:
        """Returns the example of a row of one of the last batches, in words."""
        return self._readers[row % self._count].describe(row)

    def complete(self, progress: Progress, processes: Processes) -> None:
        """Brings the places of all processes into the progress."""
        for places in processes.gather({number: each.place for number, each in self._readers.items()}):
            for number, place in places.items():
                progress.places[number] = place

    def close(self) -> None:
        """Reads no more."""
        self._background.shutdown(wait=False, cancel_futures=True)

    def notices(self, progress: Progress, processes: Processes) -> Sequence[str]:
        """Returns what was read and left out so far."""
        self.complete(progress, processes)
        total = sum((place.count for place in progress.places), ReadCount())
        return [f"train: read {total}", *total.notices("train")]

    def _next(self, number: int, progress: Progress) -> Batch:
        if number not in self._readers:
            self._readers[number] = self._reader(number, progress)
        reader = self._readers[number]
        batch = reader.next()
        progress.places[number] = reader.place
        return batch

    def _reader(self, number: int, progress: Progress) -> BlockReader:
        progress.places = progress.places or [Place() for _ in range(self._count)]
        if len(progress.places) != self._count:
            raise RunError(
                f"the checkpoint has places for {len(progress.places)} batches of an update, the task makes "
                f"{self._count}; put training.accumulation back, or begin a new run"
            )
        return BlockReader(
            self._examples,
            number,
            self._count,
            place=progress.places[number],
            order=self._order,
            seed=self._seed,
            background=self._background,
        )
