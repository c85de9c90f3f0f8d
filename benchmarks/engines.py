"""How fast a trained translator answers a whole split, and how well, next to its CTranslate2 exports.

    python benchmarks/engines.py RUN --split test_2016

Answers are those of `decoding` in the run's task, with one thread. Seconds are those of the processor, which
other programs disturb less, the median of three turns; the three systems take turns.
"""

import argparse
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import torch
from decoding import processor

from plugformer import load
from plugformer_export import ctranslate2 as export
from plugformer_export.command import create_target

TURNS = 3


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--split", default="validation")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ours = load(arguments.run, device="cpu")
    split, _ = ours.read(arguments.split)
    systems = {"plugformer float32": partial(ours.predictor().predict, split)}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("float32", "int8"):
            target, place = create_target(export.CTranslate2.name, kind), Path(folder) / kind
            place.mkdir()
            target.write(ours, place)
            engine = target.load(ours, place).predictor()
            systems[f"CTranslate2 {kind}"] = partial(engine.predict, split)
        evaluator = ours.evaluator()
        references = [split.references(row) for row in range(len(split))]
        seconds: dict[str, list[float]] = {name: [] for name in systems}
        answers = {}
        for _ in range(TURNS):
            for name, run in systems.items():
                started = time.process_time()
                answers[name] = [found.output for found in run()]
                seconds[name].append(time.process_time() - started)
    print(f"{processor()}; 1 thread; {arguments.split}, {len(split):,} examples")
    first = next(iter(systems))
    for name in systems:
        taken = statistics.median(seconds[name])
        ratio = statistics.median(b / a for a, b in zip(seconds[name], seconds[first], strict=True))
        equal = sum(a == b for a, b in zip(answers[name], answers[first], strict=True)) / len(split)
        scores = {
            key: metric.aggregate(metric.statistics(answers[name], references))
            for key, metric in evaluator.output_metrics.items()
        }
        shown = ", ".join(f"{key} {value:.2f}" for key, value in scores.items())
        print(f"{name:22}{taken:8.1f} s   {ratio:5.2f}x   {equal:6.1%} equal   {shown}")


if __name__ == "__main__":
    main()
