"""Which evaluation of a training is kept: the one of the lowest loss, of the best score, or the last?

    python benchmarks/selection.py docs/trainings/*/metrics*.jsonl docs/studies/small_data/report.json

Reads what trainings leave: their `metrics.jsonl`, or the report of a study. All scores are of validation, so
that the best one is slightly too good, and the one of the lowest loss and the last one are not.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from pathlib import Path

LOWER_IS_BETTER = {"perplexity", "bits_per_character", "mean_squared_error"}
NO_METRICS = {"event", "step", "loss", "token_accuracy", "best", "seconds"}
Curve = list[tuple[float, float]]
"""Loss and score of each evaluation."""


def curves(file: Path) -> Iterator[tuple[str, str, Curve]]:
    """Yields names of a training and of its first metric, and its evaluations."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        for cell in json.loads(text)["cells"]:
            metric = next(iter(cell["curve"][0]["metrics"]))
            points = [(point["loss"], point["metrics"][metric]) for point in cell["curve"]]
            yield cell["arm"], metric, points
        return
    events = [event for event in map(json.loads, text.splitlines()) if event["event"] == "validation"]
    metric = next((name for name in events[0] if name not in NO_METRICS), "")
    if metric:
        yield file.parent.name, metric, [(event["loss"], event[metric]) for event in events]


def main() -> None:
    """Prints a row for each training with a metric, or for the mean of each arm of a study."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    rows: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for file in parser.parse_args().files:
        for name, metric, points in curves(file):
            scores = [score for _, score in points]
            best = min(scores) if metric in LOWER_IS_BETTER else max(scores)
            lowest = min(range(len(points)), key=lambda number: points[number][0])
            rows.setdefault((name, metric), []).append((scores[lowest], scores[-1], best))
    print("| training | metric | trainings | at the lowest loss | at the end | the best |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (name, metric), found in rows.items():
        means = (f"{statistics.mean(column):.4g}" for column in zip(*found, strict=True))
        print(f"| {name} | {metric} | {len(found)} | {' | '.join(means)} |")


if __name__ == "__main__":
    main()
