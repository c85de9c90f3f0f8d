"""What finished studies say about studies: python benchmarks/questions.py STUDY...

Two tables, from the files that `plugformer ablate` leaves in each study's folder:

- seeds: how many pairs of trainings show a difference of 1 % of the baseline's score, in nine of ten studies
  where it exists (two-sided paired t test at 0.05);
- loss: the rank correlation of validation loss and score over arms, and over the seeds of an arm.
"""

import argparse
import csv
import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from scipy.stats import nct, spearmanr, t

ALPHA, POWER = 0.05, 0.9

Cells = dict[str, dict[str, dict[str, str]]]
"""Rows of `cells.csv` by arm and seed."""


def read_cells(study: Path) -> Cells:
    """Returns the finished cells of a study."""
    cells: Cells = defaultdict(dict)
    with (study / "cells.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not row["failure"]:
                cells[row["arm"]][row["seed"]] = row
    return cells


def power(pairs: int, difference: float, deviation: float) -> float:
    """Returns how often a paired t test finds a difference whose single values have a standard deviation."""
    freedom, shift = pairs - 1, difference / deviation * pairs**0.5
    critical = float(t.ppf(1 - ALPHA / 2, freedom))
    return float(nct.sf(critical, freedom, shift) + nct.cdf(-critical, freedom, shift))


def seeds(cells: Cells, metric: str) -> Iterable[str]:
    """Yields the baseline's score, the deviation over seeds of paired differences, and the pairs for 1 %."""
    scores = {arm: {seed: float(row[metric]) for seed, row in rows.items()} for arm, rows in cells.items()}
    baseline = scores.pop("baseline")
    variances = [
        stdev(arm[seed] - baseline[seed] for seed in arm.keys() & baseline.keys()) ** 2
        for arm in scores.values()
    ]
    score, deviation = mean(baseline.values()), mean(variances) ** 0.5
    enough = range(2, 10**9)
    needed = enough[bisect_left(enough, POWER, key=lambda pairs: power(pairs, 0.01 * abs(score), deviation))]
    yield f"{metric} {score:.4g}, differences vary by {deviation / abs(score):.2%}: {needed:,} pairs for 1 %"


def loss_and_score(cells: Cells, metric: str) -> Iterable[str]:
    """Yields the rank correlations of loss and score: of the means of arms, and within arms."""

    def correlation(pairs: Sequence[tuple[float, float]]) -> float:
        return float(spearmanr(*np.array(pairs).T).statistic)

    values = [[(float(row["loss"]), float(row[metric])) for row in rows.values()] for rows in cells.values()]
    means = [tuple(np.mean(arm, axis=0)) for arm in values]
    within = [correlation(arm) for arm in values if len(arm) > 2 and all(map(stdev, zip(*arm, strict=True)))]
    yield f"over {len(means)} arms {correlation(means):.2f}, within an arm {mean(within):.2f} in the mean"


def main() -> None:
    """Prints the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("studies", nargs="+", type=Path, metavar="STUDY", help="a folder of `ablate`")
    studies = parser.parse_args().studies
    questions: dict[str, Callable[[Cells, str], Iterable[str]]] = {"seeds": seeds, "loss": loss_and_score}
    for question, answer in questions.items():
        print(f"{question}:")
        for study in studies:
            metric = json.loads((study / "report.json").read_text(encoding="utf-8"))["study"]["metric"]
            for line in answer(read_cells(study), metric):
                print(f"  {study.name}: {line}")


if __name__ == "__main__":
    main()
