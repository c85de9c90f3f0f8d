"""Batches of streamed examples.

Each block is read, shuffled and cut into batches as a whole. Its content and order depend only on the seed
and on the position where it begins, so a checkpoint saves only that position. The lengths of batches are
those for the validation split, which every process has.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from plugformer.configuration.task import TrainingSettings
from plugformer.data.encoding import EncodedSplit
from plugformer.data.files import SplitStats
from plugformer.data.ladder import Ladder, PlannedBatch
from plugformer.data.streaming import StreamedExamples, add
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


class BlockReader:
    """Makes batches of one of `count` shares of the stream, pass after pass; `background` reads blocks ahead.

    Attributes:
        position: Of the next batch.
        stats: Of the blocks that were read so far.
    """

    def __init__(
        self,
        examples: StreamedExamples,
        number: int,
        count: int,
        *,
        position: StreamPosition,
        ladder: Ladder,
        seed: int,
        background: Executor,
    ) -> None:
        self.position = position
        self.stats = SplitStats()
        self._number = number
        self._count = count
        self._ladder = ladder
        self._seed = seed
        self._background = background
        self._blocks = _blocks(examples, number, count, replace(position, batch=0))
        self._next = background.submit(next, self._blocks)
        self._block: EncodedSplit
        self._batches: list[PlannedBatch] = []
        if position.batch:
            self._open_block(position.batch)

    def next(self) -> Batch:
        """Returns the next batch; its rows are numbered through the pass and all shares.

        Raises:
            DataError: A row is malformed, or no example can be used.
        """
        if self.position.batch == len(self._batches):
            self._open_block(batch=0)
        rows, lengths = self._batches[self.position.batch]
        self.position.batch += 1
        epoch = (self._seed, self._number, self.position.passes, self.position.block)
        numbers = [(self.position.first + row) * self._count + self._number for row in rows]
        return replace(self._block.batch(rows, lengths, epoch=epoch), rows=numbers)

    def _open_block(self, batch: int) -> None:
        position, self._block, stats = self._next.result()
        self._next = self._background.submit(next, self._blocks)
        seed = np.random.SeedSequence([self._number, position.passes, position.block])
        self.position = replace(position, batch=batch)
        add(self.stats, stats)
        self._batches = self._ladder.batches(
            self._block.lengths, self._block.counts, self._seed, int(seed.generate_state(1, np.uint64)[0])
        )


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
        self._readers: dict[int, BlockReader] = {}
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
            if number not in self._readers:
                self._readers[number] = BlockReader(
                    self._examples,
                    number,
                    count,
                    position=StreamPosition(**positions[number]),
                    ladder=self._ladder,
                    seed=self.settings.seed,
                    background=self._background,
                )
            reader = self._readers[number]
            batches.append(reader.next())
            positions[number] = vars(replace(reader.position))
        progress.stream = positions
        progress.epoch = max(reader.position.passes for reader in self._readers.values())
        return batches

    def result(self, ahead: Future[Prepared]) -> Prepared:
        """Returns what has been prepared, or ends all processes where one could not read."""
        with self.processes.raise_everywhere():
            batches, place = ahead.result()
        return batches, place

    def complete(self, progress: TrainingProgress) -> None:
        """Brings the places of all processes into the progress."""
        positions = list(progress.stream)
        for places in self.processes.gather({number: positions[number] for number in self._readers}):
            for number, place in places.items():
                positions[number] = place
        progress.stream = positions

    def close(self, *, wait: bool = False) -> None:
        """Stops reading, without waiting for a source that does not answer."""
        self._background.shutdown(wait, cancel_futures=True)
        super().close(wait=wait)

    def notices(self) -> Sequence[str]:
        """Returns the counts of the examples that were read and left out since training began or resumed."""
        shares = self.processes.gather([reader.stats for reader in self._readers.values()])
        total = SplitStats()
        for stats in chain.from_iterable(shares):
            add(total, stats)
        return [f"train: read {total}", *total.notices("train")]
