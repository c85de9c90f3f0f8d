"""The difficulty of each probe that each arm of a study reaches at an accuracy of 90 %, with an interval.

    python examples/probes/reached.py studies/probes

A task of the study is named "probe difficulty", such as "recall 16". A seed of an arm reaches the difficulty
at which its accuracy falls to 90 %, read off between two difficulties in proportion to their logarithms. The
interval is that of the mean of the logarithms over seeds (Student's t, 95 %). Where all seeds are below 90 %
at the easiest difficulty, or above it at the hardest, the table says "<" or ">=".
"""

import json
import sys
from collections import defaultdict
from itertools import pairwise
from math import exp, log
from pathlib import Path

from scipy.stats import t

LEAST = 0.9

Accuracies = dict[float, float]
"""The accuracy at each difficulty."""


def reached(accuracies: Accuracies) -> float | None:
    """Returns the logarithm of the difficulty at which the accuracy falls to 90 %, if it does in between."""
    steps = sorted(accuracies.items())
    for (easy, above), (hard, below) in pairwise(steps):
        if above >= LEAST > below:
            return log(easy) + (above - LEAST) / (above - below) * (log(hard) - log(easy))
    return None


def described(seeds: list[Accuracies]) -> str:
    """Returns the difficulty that the seeds of an arm reach, in the mean and with its interval."""
    easiest, hardest = min(seeds[0]), max(seeds[0])
    if all(seed[easiest] < LEAST for seed in seeds):
        return f"< {easiest:g}"
    if all(seed[hardest] >= LEAST for seed in seeds):
        return f">= {hardest:g}"
    found = [place for place in map(reached, seeds) if place is not None]
    if len(found) < len(seeds):
        return f"{len(found)} of {len(seeds)} seeds between {easiest:g} and {hardest:g}"
    mean = sum(found) / len(found)
    if len(found) < 2:
        return f"{exp(mean):.3g}"
    deviation = (sum((place - mean) ** 2 for place in found) / (len(found) - 1)) ** 0.5
    half = t.ppf(0.975, len(found) - 1) * deviation / len(found) ** 0.5
    return f"{exp(mean):.3g} [{exp(mean - half):.3g}, {exp(mean + half):.3g}]"


def main() -> None:
    """Prints a table in Markdown: a row for each probe, a column for each arm."""
    record = json.loads((Path(sys.argv[1]) / "report.json").read_text(encoding="utf-8"))
    names = {arm["arm"]: arm for arm in record["arms"]}
    found: dict[str, dict[str, dict[int, Accuracies]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for cell in record["cells"]:
        arm = names[cell["arm"]]
        task = arm["values"]["task"]
        probe, _, difficulty = task.rpartition(" ")
        plain = cell["arm"].removeprefix(f"{task}: ")
        found[probe][plain][cell["seed"]][float(difficulty)] = cell["metrics"][arm["metric"]]
    arms = list(dict.fromkeys(arm for by_arm in found.values() for arm in by_arm))
    print(f"| probe | {' | '.join(arms)} |")
    print(f"| --- |{' --- |' * len(arms)}")
    for probe, by_arm in found.items():
        cells = [described([*by_arm[arm].values()]) for arm in arms]
        print(f"| {probe} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
