"""How long a task's data take from its files to the first batch, at the first start and at the next ones.

    python benchmarks/preparation.py ag-news --repetitions 5

Every repetition has an empty cache of its own for the first start. No process is started anew: the time to
import is not part of the figures.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from plugformer.configuration import resolve
from plugformer.data.preparation import prepare
from plugformer.experiment import Experiment
from plugformer.training.stream import epochs_of
from plugformer.validation import validate

BAR = 0.1
"""Share of the first start's time that the second may take."""


def main() -> None:
    """Measures, prints the medians, and fails if the second start misses the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    task = validate(resolve(arguments.task))
    pairs = [_starts(task) for _ in range(arguments.repetitions)]
    first, second = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(again / once for once, again in pairs)
    print(f"first start {first:.2f} s, second start {second:.2f} s, ratio {ratio:.3f} (bar {BAR})")
    if arguments.json:
        record = {"task": arguments.task, "seconds": pairs, "ratio": ratio, "bar": BAR}
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if ratio > BAR:
        sys.exit("the second start is slower than the bar")


def _starts(task: Experiment) -> tuple[float, float]:
    """Returns the seconds of two starts, the first with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PLUGFORMER_CACHE"] = cache
        return _start(task), _start(task)


def _start(task: Experiment) -> float:
    """Returns the seconds until the first batch is there."""
    started = time.perf_counter()
    data = prepare(task)
    epochs = epochs_of(task.task.training, data)
    assert epochs is not None  # noqa: S101 (nothing is streamed)
    data.splits["train"].batch(*epochs(0)[0])
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
