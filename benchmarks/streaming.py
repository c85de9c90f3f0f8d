"""What a pass over streamed pairs takes in time and memory, and how long it takes to go on from its end.

    python benchmarks/streaming.py --pairs 2000000

The pairs are generated: eleven words a side on average, drawn from 20,000 by Zipf's law. Nothing is trained;
batches are made as for training. With --prepared the pairs are prepared instead, as tasks usually do.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from plugformer.configuration.task import Task
from plugformer.data import PreparedData, prepare
from plugformer.distributed import SINGLE_PROCESS
from plugformer.experiment import Experiment
from plugformer.registry import Registry
from plugformer.training.stream import ladder_of
from plugformer.training.streamed import StreamedBatches, StreamPosition

WORDS = 20_000
CHUNK = 10_000


def main() -> None:
    """Writes the pairs, reads them, prints figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--buffer", type=int, default=20_000)
    parser.add_argument("--tokenizer-examples", type=int, default=100_000)
    parser.add_argument("--prepared", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PLUGFORMER_CACHE"] = f"{folder}/cache"
        files = _write(Path(folder), arguments.pairs, arguments.files)
        size = sum(file.stat().st_size for pair in files for file in pair)
        print(f"{arguments.pairs:,} pairs, {size / 1e6:,.0f} MB of text in {arguments.files} pairs of files")
        streaming = {"buffer": arguments.buffer, "tokenizer_examples": arguments.tokenizer_examples}
        task = _task(files, None if arguments.prepared else streaming)
        started = time.perf_counter()
        data = prepare(Experiment.of(task, Registry.discover()))
        print(f"prepared in {time.perf_counter() - started:,.1f} s, {_peak()}")
        if arguments.prepared:
            kept = sum(file.stat().st_size for file in Path(folder, "cache").rglob("*") if file.is_file())
            print(f"the cache holds {kept / 1e6:,.0f} MB")
        else:
            _stream(data, task, arguments.pairs)


def _stream(data: PreparedData, task: Task, pairs: int) -> None:
    """Goes through a pass, then goes on from its end."""
    if (examples := data.streamed) is None:
        sys.exit("nothing is streamed")
    ladder = ladder_of(task.training, examples.sample)
    stream = StreamedBatches(examples, ladder, task.training, SINGLE_PROCESS)
    share = stream.share(0, StreamPosition())
    started, tokens, rows, told = time.perf_counter(), 0, 0, 0
    while rows < pairs:
        position, batch = next(share)
        tokens, rows = tokens + batch.tokens, rows + len(batch.rows)
        if rows * 10 // pairs > told:
            told, seconds = rows * 10 // pairs, time.perf_counter() - started
            rates = f"{rows / seconds:,.0f} pairs/s, {tokens / seconds:,.0f} tokens/s"
            print(f"{told * 10:3} % of the pass, {rates}, {_peak()}")
    started = time.perf_counter()
    next(stream.share(0, position))
    print(f"gone on from there in {time.perf_counter() - started:.1f} s")
    stream.close()


def _write(folder: Path, pairs: int, files: int) -> list[tuple[Path, Path]]:
    draw = np.random.default_rng(1)
    letters = draw.integers(97, 123, size=(WORDS, 8)).astype(np.uint8)
    words = np.array([row[: 2 + number % 7].tobytes().decode() for number, row in enumerate(letters)])
    weights = 1 / np.arange(1, WORDS + 1)
    places = []
    for number in range(files):
        pair = (folder / f"{number}.source", folder / f"{number}.target")
        for file in pair:
            with file.open("w") as stream:
                for start in range(0, pairs // files, CHUNK):
                    lengths = draw.integers(3, 20, size=min(CHUNK, pairs // files - start))
                    drawn = words[draw.choice(WORDS, size=lengths.sum(), p=weights / weights.sum())]
                    stream.writelines(
                        " ".join(line) + "\n" for line in np.split(drawn, lengths.cumsum()[:-1])
                    )
        places.append(pair)
    return places


def _task(files: list[tuple[Path, Path]], streaming: dict[str, int] | None) -> Task:
    train = [{"source": str(source), "target": str(target)} for source, target in files]
    held_out = files[0][0].with_name("validation")
    held_out.write_text("".join(f"{line}\n" for line in ("one", "two")))
    pair = {"source": str(held_out), "target": str(held_out)}
    return Task.model_validate(
        {
            "type": "sequence-to-sequence",
            "data": {
                "name": "lines",
                "files": {"train": train, "validation": pair},
                "streaming": streaming,
            },
            "tokenizer": {"name": "bpe", "size": 16_000},
            "model": {"architecture": "encoder-decoder", "head": "language_model"},
            "training": {"steps": 1, "batch_tokens": 4096},
        }
    )


def _peak() -> str:
    """Returns the most memory that this process has had."""
    return f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB"


if __name__ == "__main__":
    main()
