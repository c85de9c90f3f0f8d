"""Where training batches come from, without end: a function of seed and place, so that resuming is exact.

A thread prepares the batches of the next update while the model computes those of the present one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain

from plugformer.configuration.task import TrainingSettings
from plugformer.data.encoding import EncodedSplit, Rows
from plugformer.data.files import SplitStats
from plugformer.data.streaming import BlockReader, Order, StreamedExamples, StreamPosition
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.errors import RunError
from plugformer.interfaces.batch import Batch
from plugformer.runs.checkpoint import TrainingProgress

Share = tuple[list[Batch], list[Batch]]
"""The batches of an update that a process computes; and where other processes have one more, a dummy batch,
which counts for nothing."""


class BatchStream(ABC):
    """Yields the batches of one update after the other.

    The batches of an update depend on their number, on the seed and on the place in the stream, not on how
    many processes share them. All methods but `close` are collectives.

    Args:
        settings: Of the training.
        processes: Those that train.
    """

    def __init__(self, settings: TrainingSettings, processes: Processes) -> None:
        self._count = settings.batches_per_update
        self._seed = settings.seed
        self._processes = processes
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches")
        self._ahead: Future[tuple[list[Batch], TrainingProgress]] | None = None

    def next(self, progress: TrainingProgress) -> Share:
        """Returns this process's batches of the next update, and begins to prepare those after it.

        Args:
            progress: Holds the place in the stream, which moves on: behind the batches that are returned,
                not behind those that are being prepared.
        """
        share = list(self._processes.share(range(self._count)))
        dummy = [0] if len(share) * self._processes.count < self._count else []
        if self._ahead is None:
            self._ahead = self._thread.submit(self._prepare, [*share, *dummy], _place(progress))
        batches, reached = self._result(self._ahead)
        progress.epoch, progress.batch, progress.places = reached.epoch, reached.batch, reached.places
        self._ahead = self._thread.submit(self._prepare, [*share, *dummy], _place(reached))
        return batches[: len(share)], batches[len(share) :]

    def _prepare(
        self, numbers: Sequence[int], place: TrainingProgress
    ) -> tuple[list[Batch], TrainingProgress]:
        """Returns batches, and the place behind them."""
        return self._batches(numbers, place), place

    def _result(
        self, ahead: Future[tuple[list[Batch], TrainingProgress]]
    ) -> tuple[list[Batch], TrainingProgress]:
        """Returns what has been prepared; an error of the thread is raised here."""
        return ahead.result()

    @abstractmethod
    def _batches(self, numbers: Sequence[int], progress: TrainingProgress) -> list[Batch]:
        """Returns the batches of the next update that have these numbers, counted from 0.

        The thread calls it: it is no collective, and changes nothing but `progress` and its readers.
        """

    def complete(self, progress: TrainingProgress) -> None:  # noqa: B027 (a default)
        """Brings the places of all processes into the progress that is to be saved."""

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(cancel_futures=True)

    def notices(self) -> Sequence[str]:
        """Returns notices about what was read, none by default."""
        return ()


class PreparedBatches(BatchStream):
    """Goes through prepared examples, epoch after epoch.

    Args:
        examples: The training split.
        order: Makes batches of it.
        settings: Of the training.
        processes: Those that train.
    """

    def __init__(
        self,
        examples: EncodedSplit,
        order: Order,
        settings: TrainingSettings,
        processes: Processes = SINGLE_PROCESS,
    ) -> None:
        super().__init__(settings, processes)
        self._examples = examples
        self._order = order(examples.lengths)

    def _batches(self, numbers: Sequence[int], progress: TrainingProgress) -> list[Batch]:
        places = [(self._rows(progress), progress.epoch) for _ in range(self._count)]
        chosen = [places[number] for number in numbers]
        return [self._examples.batch(rows, epoch=(self._seed, epoch)) for rows, epoch in chosen]

    def _rows(self, progress: TrainingProgress) -> Rows:
        """Returns the next batch's rows."""
        if progress.batch == len(self._order(progress.epoch)):
            progress.epoch += 1
            progress.batch = 0
        progress.batch += 1
        return self._order(progress.epoch)[progress.batch - 1]


class StreamedBatches(BatchStream):
    """Goes through streamed examples, pass after pass.

    Each batch of an update has its own share of the stream. So the batches of an update are the same for any
    number of processes, which read only the shares of the batches that they compute.

    Args:
        examples: The stream.
        order: Makes batches of a block of them.
        settings: Of the training.
        processes: Those that train.

    Raises:
        DataError: By `next`: a row is malformed, or no example can be used.
        RunError: By `next`: the checkpoint has positions for another number of batches.
    """

    def __init__(
        self, examples: StreamedExamples, order: Order, settings: TrainingSettings, processes: Processes
    ) -> None:
        super().__init__(settings, processes)
        self._examples = examples
        self._order = order
        self._readers: dict[int, BlockReader] = {}
        self._background = ThreadPoolExecutor(max_workers=1)  # tokenizers use several cores by themselves

    def _batches(self, numbers: Sequence[int], progress: TrainingProgress) -> list[Batch]:
        batches = [self._next(number, progress) for number in numbers]
        progress.epoch = max(reader.position.passes for reader in self._readers.values())
        return batches

    def _result(
        self, ahead: Future[tuple[list[Batch], TrainingProgress]]
    ) -> tuple[list[Batch], TrainingProgress]:
        """Returns what has been prepared, or ends all processes where one could not read."""
        with self._processes.raise_everywhere():
            batches, place = ahead.result()
        return batches, place

    def complete(self, progress: TrainingProgress) -> None:
        """Brings the places of all processes into the progress."""
        for places in self._processes.gather({n: progress.places[n] for n in self._readers}):
            for number, place in places.items():
                progress.places[number] = place

    def close(self) -> None:
        """Stops reading, without waiting for a source that does not answer."""
        for executor in (self._background, self._thread):
            executor.shutdown(wait=False, cancel_futures=True)

    def notices(self) -> Sequence[str]:
        """Returns the counts of the examples that were read and left out since training began or resumed."""
        shares = self._processes.gather([reader.stats for reader in self._readers.values()])
        total = sum(chain.from_iterable(shares), SplitStats())
        return [f"train: read {total}", *total.notices("train")]

    def _next(self, number: int, progress: TrainingProgress) -> Batch:
        if number not in self._readers:
            progress.places = progress.places or [StreamPosition() for _ in range(self._count)]
            if len(progress.places) != self._count:
                raise RunError(
                    f"the checkpoint has places for {len(progress.places)} batches of an update, the task "
                    f"makes {self._count}; restore training.batches_per_update, or start a new run"
                )
            self._readers[number] = BlockReader(
                self._examples,
                number,
                self._count,
                position=replace(progress.places[number]),
                order=self._order,
                seed=self._seed,
                background=self._background,
            )
        reader = self._readers[number]
        batch = reader.next()
        progress.places[number] = replace(reader.position)
        return batch


def _place(progress: TrainingProgress) -> TrainingProgress:
    """Returns the place in the stream alone, to be moved on without moving the training's."""
    return TrainingProgress(
        epoch=progress.epoch, batch=progress.batch, places=[replace(p) for p in progress.places]
    )
