"""Streamed examples in blocks: each is read, shuffled and cut into batches as a whole.

What a block holds, and in which order, is a function of the seed and of the place where it begins. That place
is all that has to be saved: no buffer of examples.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from pydantic import ConfigDict

from plugformer.data.encoding import EncodedSplit
from plugformer.data.order import Rows
from plugformer.data.read_count import Natural, ReadCount
from plugformer.data.streaming import StreamedExamples
from plugformer.errors import DataError, RunError
from plugformer.interfaces.batch import Batch

Order = Callable[[Int[ndarray, "examples sides"]], Callable[[int], list[Rows]]]
"""From the lengths of some examples and the number of their epoch to batches of them."""


@dataclass
class Place:
    """A place in one share of the stream.

    Attributes:
        reader: The state of the stream where the block begins; None at the beginning of a pass.
        passes: Number of the pass, counted from 0.
        block: Number of the block in the pass.
        batch: Number of the next batch in the block.
        first: Examples of the pass before the block.
        content: A hash of the block's texts; empty before the first.
        count: What was read so far, the block included.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    reader: dict[str, Any] | None = None
    passes: Natural = 0
    block: Natural = 0
    batch: Natural = 0
    first: Natural = 0
    content: str = ""
    count: ReadCount = field(default_factory=ReadCount)


Block = tuple[Place, EncodedSplit]
"""Where examples that were read together begin, with the count of what was read since the block before; and
those of them that can be used."""


class BlockReader:
    """Makes batches of one share of the stream, pass after pass; the next block is read in the background.

    Args:
        examples: The stream.
        number: Of the share.
        count: Number of shares.
        place: Where to go on.
        order: Makes batches of a block.
        seed: Of what is drawn for examples anew in each pass.
        background: Reads blocks.

    Attributes:
        place: That of the next batch; replaced or moved on by each.

    Raises:
        RunError: At the place there are other examples than when it was saved.
    """

    def __init__(
        self,
        examples: StreamedExamples,
        number: int,
        count: int,
        *,
        place: Place,
        order: Order,
        seed: int,
        background: Executor,
    ) -> None:
        self.place = place
        self._number = number
        self._count = count
        self._order = order
        self._seed = seed
        self._background = background
        self._blocks = _blocks(examples, number, count, place)
        self._examples: EncodedSplit
        self._recent: deque[tuple[int, EncodedSplit]] = deque(maxlen=2)  # batches are prepared ahead
        self._batches: list[Rows] = []
        if place.content:
            self._return()
        self._next = background.submit(next, self._blocks)

    def next(self) -> Batch:
        """Returns the next batch; its rows are numbered through the pass and all shares.

        Raises:
            DataError: A row is malformed, or no example can be used.
        """
        if self.place.batch == len(self._batches):
            start, examples = self._next.result()
            self._next = self._background.submit(next, self._blocks)
            self._turn_to(replace(start, count=self.place.count + start.count), examples)
        rows = self._batches[self.place.batch]
        self.place.batch += 1
        numbers = [(self.place.first + row) * self._count + self._number for row in rows]
        epoch = (self._seed, self._number, self.place.passes, self.place.block)
        return replace(self._examples.batch(rows, epoch=epoch), rows=numbers)

    def describe(self, row: int) -> str:
        """Returns an example of one of the last batches in words, by its number there."""
        for first, examples in reversed(self._recent):
            number = row // self._count - first
            if 0 <= number < len(examples):
                return examples.described(number)
        return "no longer in memory"

    def _turn_to(self, place: Place, examples: EncodedSplit) -> None:
        seed = np.random.SeedSequence([self._number, place.passes, place.block])
        epoch = int(seed.generate_state(1, np.uint64)[0])
        self.place, self._examples = place, examples
        self._recent.append((place.first, examples))
        self._batches = self._order(examples.lengths)(epoch)

    def _return(self) -> None:
        """Goes on in the middle of a block, which is read again."""
        share = f"share {self._number + 1} of {self._count} of the training examples"
        where = f"{share}, pass {self.place.passes + 1}"
        try:
            start, examples = next(self._blocks)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise RunError(
                f"{where}: the checkpoint's place is none of these data: {type(error).__name__}: {error}; "
                "put back the data and the version of `datasets` that the run has had, or begin a new one"
            ) from error
        self._turn_to(self.place, examples)
        if start.content != self.place.content or self.place.batch > len(self._batches):
            raise RunError(
                f"{where}: the {len(examples):,} examples after the first {self.place.first:,} are not "
                "those that the run has read there; put the data back to resume exactly, or begin a new run"
            )


def _blocks(examples: StreamedExamples, number: int, count: int, place: Place) -> Iterator[Block]:
    """Yields the blocks of a share of the stream, pass after pass, those with examples that can be used.

    Raises:
        DataError: A row is malformed, or there is no such example in a whole pass.
    """
    start, read = replace(place, batch=0, content="", count=ReadCount()), ReadCount()
    while True:
        stream = examples.share(number, count)
        if start.reader is not None:
            stream.load_state_dict(start.reader)
        remaining = iter(stream)
        while rows := list(islice(remaining, examples.buffer)):
            here, sound = start, list(read.sound(rows))
            found, counted = examples.encode(sound) if sound else (None, ReadCount())
            read += counted
            used = 0 if found is None else len(found)
            reader = stream.state_dict()
            start = replace(here, reader=reader, block=here.block + 1, first=here.first + used)
            if found is not None and used:
                yield replace(here, content=examples.hash(rows), count=read), found
                read = ReadCount()
        if start.first == 0:
            share = f", share {number + 1} of {count}" if count > 1 else ""
            faults = "".join(f"\n  {fault}" for fault in read.faults)
            raise DataError(
                f"train{share}: none of its {read.rows:,} rows can be used ({read}); check the files, "
                "raise model.max_length or data.length.max, or, if there are fewer examples than shares, "
                f"lower training.batches_per_update{faults}"
            )
        start = Place(passes=start.passes + 1)
