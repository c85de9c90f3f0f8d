"""How long a step of decoding with a cache takes, by ONNX Runtime and by PyTorch, without the search.

    python benchmarks/onnx_steps.py RUN

Prints a Markdown table of milliseconds for a step, wall time and processor time: the means of steps 1 to 20
behind inputs of 20 tokens, in the best of 10 rounds. Both use one thread, and take turns.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plugformer import load
from plugformer.interfaces import HeadInput, Tokens
from plugformer.runs import TrainedModel
from plugformer_export.onnx import ONNX
from plugformer_export.onnx.engine import ONNXRuntime
from plugformer_export.onnx.format import example

ROWS, STEPS, ROUNDS = (1, 32), 20, 10


def by_pytorch(trained: TrainedModel, rows: list[list[int]]) -> Iterator[Tensor]:
    """Yields the scores of one step after another, always of the same tokens."""
    model: Any = trained.model
    cache, _ = model.begin(example(trained, rows))
    tokens, real = torch.full((len(rows), 1), 5), torch.ones(len(rows), 1, dtype=torch.bool)
    while True:
        hidden = model.step(Tokens(tokens, real, full=True), cache)
        yield model.head.logits(hidden, HeadInput(real))[:, 0]


def by_onnx(engine: ONNXRuntime, rows: list[list[int]]) -> Iterator[Tensor]:
    """Yields the same by ONNX Runtime."""
    past, _ = engine.begin(example(engine.trained, rows))
    while True:
        yield engine.step(torch.full((len(rows),), 5), past)


def measured(steps: Iterator[Tensor]) -> tuple[float, float]:
    """Returns milliseconds for a step: wall time and processor time."""
    next(steps)
    wall, processor = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        next(steps)
    passed = time.perf_counter() - wall, time.process_time() - processor
    return passed[0] / STEPS * 1000, passed[1] / STEPS * 1000


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    torch.set_num_threads(1)
    trained = load(parser.parse_args().run, device="cpu")
    trained.model.eval()
    target = ONNX()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        if problems := target.problems(trained):
            raise SystemExit("\n".join(problems))
        target.write(trained, Path(folder))
        engine = ONNXRuntime(trained, Path(folder))
        ways: dict[str, Callable[[list[list[int]]], Iterator[Tensor]]] = {
            "ONNX Runtime": lambda rows: by_onnx(engine, rows),
            "PyTorch": lambda rows: by_pytorch(trained, rows),
        }
        print("| rows | by | wall, ms | processor, ms |\n| --- | --- | --- | --- |")
        for count in ROWS:
            rows = [[4 + number % 3] * 20 for number in range(count)]
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    found[name].append(measured(way(rows)))
            for name, times in found.items():
                wall, processor = (min(each) for each in zip(*times, strict=True))
                print(f"| {count} | {name} | {wall:.2f} | {processor:.2f} |", flush=True)


if __name__ == "__main__":
    main()
