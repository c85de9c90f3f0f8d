"""Do the arms of a finished study differ more in its own context than in another one?

    python benchmarks/two_contexts.py STUDY [--last] --set KEY=VALUE...

Each cell is evaluated again with the settings, on the study's split. A study keeps of each cell the
checkpoint that is best in its own context, perhaps of another update for each arm; with --last both
contexts are measured after the last update. The tables hold, for each arm, its paired difference from the
baseline in the study's context and in the other one, and the difference of these differences, by a paired
t test over seeds. All intervals of a column hold together with 95 % (Bonferroni); they cover seeds, not
test examples.
"""

import argparse
import csv
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev

from scipy.stats import t

import plugformer
from plugformer.runs.store import load_tensors, restore

ALPHA = 0.05


def interval(values: list[float], comparisons: int) -> str:
    """Returns the mean of values of several seeds with its corrected interval, as text."""
    margin = t.ppf(1 - ALPHA / comparisons / 2, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return f"{mean(values):.2f} [{mean(values) - margin:.2f}, {mean(values) + margin:.2f}]"


def main() -> None:
    """Evaluates the cells and prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", type=Path)
    parser.add_argument("--last", action="store_true", help="the parameters after the last update")
    parser.add_argument("--set", dest="settings", action="append", required=True, metavar="KEY=VALUE")
    options = parser.parse_args()
    record = json.loads((options.study / "report.json").read_text(encoding="utf-8"))
    metric, split = record["study"]["metric"], record["study"]["split"]
    here: dict[str, dict[str, float]] = defaultdict(dict)
    there: dict[str, dict[str, float]] = defaultdict(dict)
    with (options.study / "cells.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            folder, score = options.study / row["directory"], float(row[metric])
            run = plugformer.load(folder, overrides=options.settings)
            if options.last:
                cell = json.loads((folder / "cell.json").read_text(encoding="utf-8"))
                score = cell["curve"][-1]["metrics"][metric]
                file = max(folder.glob("checkpoints/*/model.safetensors"))
                restore(run.model, load_tensors(file), file)
            here[row["arm"]][row["seed"]] = score
            there[row["arm"]][row["seed"]] = run.evaluate(split).metrics[metric]["value"]
    baseline, *arms = here
    print(f"| arm | {metric}, study | {metric}, {' '.join(options.settings)} |\n| --- | --- | --- |")
    for arm in here:
        spreads = (
            f"{mean(side.values()):.2f} ± {stdev(side.values()):.2f}" for side in (here[arm], there[arm])
        )
        print(f"| {arm} | {' | '.join(spreads)} |")
    level = f"{100 * (1 - ALPHA / len(arms)):.4g} % interval"
    print(f"\n| arm | difference from {baseline} [{level}], study | the other context | study minus other |")
    print("| --- | --- | --- | --- |")
    for arm in arms:
        first, second = (
            [side[arm][seed] - side[baseline][seed] for seed in side[arm]] for side in (here, there)
        )
        gaps = [one - other for one, other in zip(first, second, strict=True)]
        print(f"| {arm} | {' | '.join(interval(values, len(arms)) for values in (first, second, gaps))} |")


if __name__ == "__main__":
    main()
