"""Where training batches come from, without end: a function of seed and place, so that resuming is exact."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from plugformer.data.blocks import BlockReader, Order, Place
from plugformer.data.length import ReadCount
from plugformer.data.order import Rows
from plugformer.data.streaming import StreamedExamples
from plugformer.distributed import Processes
from plugformer.errors import RunError
from plugformer.interfaces.batch import Batch
from plugformer.runs.checkpoint import Progress

Share = tuple[list[Batch], list[Batch]]
"""The batches of an update that a process computes; and where other processes have one more, a dummy batch,
which counts for nothing."""


class BatchStream(ABC):
    """Yields the batches of one update after the other.

    The batches of an update depend on their number, on the seed and on the place in the stream, not on how
    many processes share them.
    """

    @abstractmethod
    def next(self, progress: Progress, count: int, processes: Processes) -> Share:
        """Returns this process's batches of the next update; a collective.

        Args:
            progress: Holds the place in the stream, which moves on.
            count: Batches of an update, of all processes together.
            processes: Those that train.
        """

    @abstractmethod
    def describe(self, row: int) -> str:
        """Returns the example of a row of one of the last batches, in words."""

    def complete(self, progress: Progress, processes: Processes) -> None:  # noqa: B027 (a default)
        """Brings the places of all processes into the progress that is to be saved; a collective."""

    def close(self) -> None:  # noqa: B027 (a default)
        """Ends what goes on in the background."""

    def notices(self, progress: Progress, processes: Processes) -> Sequence[str]:  # noqa: ARG002 (for others)
        """Returns notices about what was read, none by default; a collective."""
        return ()


class PreparedBatches(BatchStream):
    """Goes through prepared examples, epoch after epoch.

    Args:
        order: Returns an epoch's batches, as rows of the training split.
        fetch: Returns the batch of some rows in an epoch.
        describe: Returns the example of a row, in words.
    """

    def __init__(
        self,
        *,
        order: Callable[[int], list[Rows]],
        fetch: Callable[[Rows, int], Batch],
        describe: Callable[[int], str],
    ) -> None:
        self._order = lru_cache(maxsize=1)(order)
        self._fetch = fetch
        self._describe = describe

    def next(self, progress: Progress, count: int, processes: Processes) -> Share:
        """Returns this process's batches of the next update."""
        rows = [(self._rows(progress), progress.epoch) for _ in range(count)]
        own = [self._fetch(*each) for each in processes.share(rows)]
        idle = len(own) * processes.count < len(rows)
        return own, [self._fetch(*rows[0])] if idle else []

    def describe(self, row: int) -> str:
        """Returns the example of a row, in words."""
        return self._describe(row)

    def _rows(self, progress: Progress) -> Rows:
        """Returns the next batch's rows."""
        if progress.batch == len(self._order(progress.epoch)):
            progress.epoch += 1
            progress.batch = 0
        progress.batch += 1
        return self._order(progress.epoch)[progress.batch - 1]


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
        dummy = [0] if len(own) * processes.count < count else []
        with processes.raise_everywhere():
            batches = [self._next(number, progress) for number in own + dummy]
        progress.epoch = max(reader.place.passes for reader in self._readers.values())
        return batches[: len(own)], batches[len(own) :]

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
        """Returns the counts of what was read and left out so far."""
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
                f"{self._count}; put training.batches_per_update back, or begin a new run"
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
