"""Batches of streamed examples.

Each block is read, shuffled and cut into batches as a whole. Its content and order depend only on the seed
and on the position where it begins, so a checkpoint saves only that position. The lengths of batches are
those for the validation split, which every process has.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from plugformer.configuration.task import TrainingSettings
from plugformer.data.encoding import EncodedSplit
from plugformer.data.files import SplitStats
from plugformer.data.ladder import Ladder
from plugformer.data.streaming import StreamedExamples
from plugformer.distributed import Processes
from plugformer.errors import DataError, RunError
from plugformer.interfaces import Batch
from plugformer.runs.checkpoint import TrainingProgress
from plugformer.training.stream import BatchStream, Prepared


@dataclass
class StreamPosition:
    """A position in one share of the stream.

    Attributes:
        reader: The state of the stream where the block begins; None at the beginning of a pass.
        passes: Number of the pass, counted from 0.
        block: Number of the block in the pass.
        batch: Number of the next batch in the block.
        first: Examples of the pass before the block.
    """

    reader: dict[str, Any] | None = None
    passes: int = 0
    block: int = 0
    batch: int = 0
    first: int = 0


def _blocks(
    examples: StreamedExamples, number: int, count: int, position: StreamPosition
) -> Iterator[tuple[StreamPosition, EncodedSplit, SplitStats]]:
    """Yields the blocks of a share, pass after pass, each with the stats of the rows since the one before."""
    stats = SplitStats()
    while True:
        stream = examples.share(number, count)
        if position.reader is not None:
            stream.load_state_dict(position.reader)
        remaining = iter(stream)
        while rows := list(islice(remaining, examples.buffer)):
            beginning = position
            position = replace(beginning, reader=stream.state_dict(), block=beginning.block + 1)
            block = examples.encode(rows, stats)
            if block is not None:
                position.first += len(block)
                yield beginning, block, stats
                stats = SplitStats()
        if position.first == 0:
            share = f", share {number + 1} of {count}" if count > 1 else ""
            faults = "".join(f"\n  {fault}" for fault in stats.faults)
            raise DataError(
                f"train{share}: none of its {stats.rows:,} rows can be used ({stats}); check the files, "
                "raise model.max_length or data.length.max, or, if there are fewer examples than shares, "
                f"lower training.batches_per_update{faults}"
            )
        position = StreamPosition(passes=position.passes + 1)


class StreamedBatches(BatchStream):
    """Goes through streamed examples, pass after pass.

    Each batch of an update has its own share of the stream. So the batches of an update are the same for any
    number of processes, which read only the shares of the batches that they compute.

    `TrainingProgress.stream` has the position of each share, as a mapping.

    Attributes:
        stats: Of the blocks that were read so far.

    Raises:
        DataError: By `next`: a row is malformed, or no example can be used.
        RunError: By `next`: the checkpoint has positions for another number of batches.
    """

    def __init__(
        self,
        examples: StreamedExamples,
        ladder: Ladder,
        settings: TrainingSettings,
        processes: Processes,
    ) -> None:
        super().__init__(settings, processes)
        self._examples = examples
        self._ladder = ladder
        self._shares: dict[int, Iterator[tuple[StreamPosition, Batch]]] = {}
        self.stats = SplitStats()
        self._background = ThreadPoolExecutor(max_workers=1)  # tokenizers use several cores by themselves

    def batches(self, numbers: Sequence[int], progress: TrainingProgress) -> list[Batch]:
        """Returns the batches of the next update that have these numbers."""
        count = self.settings.batches_per_update
        positions = list(progress.stream or [vars(StreamPosition())] * count)
        if len(positions) != count:
            raise RunError(
                f"the checkpoint has places for {len(positions)} batches of an update, the task makes "
                f"{count}; restore training.batches_per_update, or start a new run"
            )
        batches = []
        for number in numbers:
            if number not in self._shares:
                self._shares[number] = self.share(number, StreamPosition(**positions[number]))
            position, batch = next(self._shares[number])
            batches.append(batch)
            positions[number] = vars(position)
        progress.stream = positions
        progress.epoch = max(positions[number]["passes"] for number in self._shares)
        return batches

    def share(self, number: int, position: StreamPosition) -> Iterator[tuple[StreamPosition, Batch]]:
        """Yields the batches of one share from a position on, each with the position after it.

        Rows of batches are numbered through the pass and all shares.

        Raises:
            DataError: A row is malformed, or no example can be used.
        """
        count, seed, done = self.settings.batches_per_update, self.settings.seed, position.batch
        blocks = _blocks(self._examples, number, count, replace(position, batch=0))
        ahead = self._background.submit(next, blocks)
        while True:
            beginning, block, read = ahead.result()
            ahead = self._background.submit(next, blocks)
            self.stats.add(read)
            place = (number, beginning.passes, beginning.block)
            order = int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0])
            planned = self._ladder.batches(block.lengths, block.counts, seed, order)
            for after, (rows, lengths) in enumerate(planned[done:], start=done + 1):
                batch = block.batch(rows, lengths, epoch=(seed, *place))
                numbers = [(beginning.first + row) * count + number for row in rows]
                yield replace(beginning, batch=after), replace(batch, rows=numbers)
            done = 0

    def result(self, ahead: Future[Prepared]) -> Prepared:
        """Returns what has been prepared, or ends all processes where one could not read."""
        with self.processes.raise_everywhere():
            return ahead.result()

    def complete(self, progress: TrainingProgress) -> None:
        """Brings the places of all processes into the progress."""
        positions = list(progress.stream)
        for places in self.processes.gather({number: positions[number] for number in self._shares}):
            for number, place in places.items():
                positions[number] = place
        progress.stream = positions

    def close(self, *, wait: bool = False) -> None:
        """Stops reading, without waiting for a source that does not answer."""
        self._background.shutdown(wait, cancel_futures=True)
        super().close(wait=wait)

    def notices(self) -> Sequence[str]:
        """Returns the counts of the examples that were read and left out since training began or resumed."""
        total = SplitStats()
        for stats in self.processes.gather(self.stats):
            total.add(stats)
        return [f"train: read {total}", *total.notices("train")]
