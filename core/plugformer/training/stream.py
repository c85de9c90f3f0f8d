"""Where training batches come from, without end: a function of seed and place, so that resuming is exact.

A thread prepares the batches of the next update while the model computes those of the present one: all that
the host does for a batch is done there.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from typing import NamedTuple

from plugformer.configuration.task import DEFAULT_BATCH_TOKENS, DEFAULT_EPOCHS, TrainingSettings
from plugformer.data.encoding import EncodedSplit
from plugformer.data.ladder import Ladder, PlannedBatch
from plugformer.data.preparation import PreparedData
from plugformer.distributed import SINGLE_PROCESS, Processes
from plugformer.interfaces.batch import Batch
from plugformer.runs.checkpoint import TrainingProgress

LEAST_EPOCH_STEPS = 32
"""Updates of an epoch below which the batches of a task that does not name their size become smaller."""
LEAST_BATCH_TOKENS = 256
"""Positions below which they do not."""
STREAMED_EPOCH = 1000
"""Updates between two evaluations where nobody knows how many an epoch has."""

Epochs = Callable[[int], list[PlannedBatch]]
"""Returns the batches of an epoch by its number."""


def ladder_of(settings: TrainingSettings, split: EncodedSplit) -> Ladder:
    """Returns the shapes of batches of such examples, as the task's batch settings say."""
    tokens = settings.batch_tokens or DEFAULT_BATCH_TOKENS
    return Ladder(split.lengths, split.counts, tokens=tokens, size=settings.batch_size)


def usual_batch_tokens(data: PreparedData, batches_per_update: int) -> int:
    """Returns the positions of a batch for a task that does not say it: fewer if the data are few.

    Ten epochs are then about three hundred updates, if batches do not have the least size. The rule is
    explained in docs/decisions/0014-defaults.md.
    """
    if data.streamed is not None:
        return DEFAULT_BATCH_TOKENS
    train = data.splits["train"]
    positions = int((train.lengths * train.counts).sum())
    fitting = positions // (LEAST_EPOCH_STEPS * batches_per_update)
    return min(DEFAULT_BATCH_TOKENS, max(LEAST_BATCH_TOKENS, fitting))


def epochs_of(settings: TrainingSettings, data: PreparedData) -> Epochs | None:
    """Returns the batches of a training's epochs, keeping those of the last one; None for streamed data."""
    if data.streamed is not None:
        return None
    train = data.splits["train"]
    batches = partial(ladder_of(settings, train).batches, train.lengths, train.counts, settings.seed)
    return lru_cache(maxsize=1)(batches)


def count_updates(settings: TrainingSettings, epochs: Epochs | None) -> tuple[int, int]:
    """Returns the number of updates of a training that nothing ends earlier, and those that make an epoch."""
    epoch_steps = STREAMED_EPOCH
    if epochs is not None:
        epoch_steps = -(-len(epochs(0)) // settings.batches_per_update)  # rounded up
    return settings.steps or (settings.epochs or DEFAULT_EPOCHS) * epoch_steps, epoch_steps


class CountedBatch(NamedTuple):
    """A batch as the device needs it, and what the host knows about it.

    Attributes:
        batch: The examples, in memory that the device reads by itself.
        targets: Number of targets.
        tokens: Number of real tokens that the stacks read.
        dummy: Whether it counts for nothing: other processes have one batch more.
    """

    batch: Batch
    targets: int
    tokens: int
    dummy: bool = False


Count = Callable[[Batch], CountedBatch]
"""Counts what is in a batch, and prepares it for the device."""

Prepared = tuple[list[CountedBatch], TrainingProgress]
"""Batches, and the place after them."""


class BatchStream(ABC):
    """Yields the batches of one update after the other.

    The batches of an update depend on their number, on the seed and on the place in the stream, not on how
    many processes share them. All methods but `batches` and `close` are collectives.

    Args:
        settings: Of the training.
        processes: Those that train.
    """

    def __init__(self, settings: TrainingSettings, processes: Processes) -> None:
        self.settings = settings
        self.processes = processes
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches")
        self._ahead: Future[Prepared] | None = None

    def next(self, progress: TrainingProgress, count: Count) -> list[CountedBatch]:
        """Returns this process's batches of the next update, and begins to prepare those after it.

        Args:
            progress: Holds the place in the stream, which moves on: after the batches that are returned,
                not after those that are being prepared.
            count: Called by the thread on each batch.
        """
        number = self.settings.batches_per_update
        share = list(self.processes.share(range(number)))
        dummies = [0] if len(share) * self.processes.count < number else []

        def prepare(place: TrainingProgress) -> Prepared:
            place = TrainingProgress(epoch=place.epoch, batch=place.batch, stream=place.stream)
            batches = [count(batch) for batch in self.batches([*share, *dummies], place)]
            last = [CountedBatch(each.batch, 0, 0, dummy=True) for each in batches[len(share) :]]
            return [*batches[: len(share)], *last], place

        batches, place = self.result(self._ahead or self._thread.submit(prepare, progress))
        progress.epoch, progress.batch, progress.stream = place.epoch, place.batch, place.stream
        self._ahead = self._thread.submit(prepare, place)
        return batches

    @abstractmethod
    def batches(self, numbers: Sequence[int], progress: TrainingProgress) -> list[Batch]:
        """Returns the batches of the next update that have these numbers, counted from 0.

        The thread calls it: it is no collective. Of `progress` it sets `epoch`, `batch` and `stream`.
        """

    def result(self, ahead: Future[Prepared]) -> Prepared:
        """Returns what has been prepared; an error of the thread is raised here."""
        return ahead.result()

    def complete(self, progress: TrainingProgress) -> None:  # noqa: B027 (a default)
        """Brings the places of all processes into the progress that is to be saved."""

    def close(self, *, wait: bool = True) -> None:
        """Ends the thread."""
        self._thread.shutdown(wait, cancel_futures=True)

    def notices(self) -> Sequence[str]:
        """Returns notices about what was read, none by default."""
        return ()


class PreparedBatches(BatchStream):
    """Goes through prepared examples; `epochs` returns the batches of an epoch by its number."""

    def __init__(
        self,
        examples: EncodedSplit,
        epochs: Epochs,
        settings: TrainingSettings,
        processes: Processes = SINGLE_PROCESS,
    ) -> None:
        super().__init__(settings, processes)
        self._examples = examples
        self._epochs = epochs

    def batches(self, numbers: Sequence[int], progress: TrainingProgress) -> list[Batch]:
        """Returns the batches of the next update that have these numbers."""
        places: list[tuple[PlannedBatch, int]] = []
        for _ in range(self.settings.batches_per_update):
            if progress.batch == len(self._epochs(progress.epoch)):
                progress.epoch, progress.batch = progress.epoch + 1, 0
            places.append((self._epochs(progress.epoch)[progress.batch], progress.epoch))
            progress.batch += 1
        chosen = [places[number] for number in numbers]
        return [self._examples.batch(*batch, epoch=(self.settings.seed, epoch)) for batch, epoch in chosen]
