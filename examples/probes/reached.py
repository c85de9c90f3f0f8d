"""The difficulty of each probe that each arm of a study reaches at an accuracy of 90 %, with an interval.

    python examples/probes/reached.py studies/probes

A task of the study is named "probe difficulty", such as "recall 16". A seed of an arm reaches the difficulty
at which its accuracy first falls to 90 %, read off between two difficulties in proportion to their
logarithms. The interval is that of the mean of the logarithms over seeds (Student's t, 95 %). A seed that is
below 90 % at the easiest difficulty, or nowhere, has "<" or ">=" in place of a number, and its arm no mean:
the table then has what each seed reaches.

For facts that are learned by heart further rows have the bits that a parameter stores, mean and standard
deviation over seeds: facts x (log2(values) - validation loss in bits) / parameters, after Allen-Zhu and Li
2024, section 3: https://arxiv.org/abs/2404.05405.
"""

import json
import sys
from collections import defaultdict
from itertools import pairwise
from math import exp, inf, log, log2
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scipy.stats import t

LEAST = 0.9

Accuracies = dict[float, float]
"""The accuracy at each difficulty."""


def reached(accuracies: Accuracies) -> float:
    """Returns the difficulty at which the accuracy first falls to 90 %: 0 before all, infinity after."""
    steps = sorted(accuracies.items())
    if steps[0][1] < LEAST:
        return 0.0
    for (easy, above), (hard, below) in pairwise(steps):
        if below < LEAST:
            return exp(log(easy) + (above - LEAST) / (above - below) * (log(hard) - log(easy)))
    return inf


def described(seeds: list[Accuracies]) -> str:
    """Returns the difficulty that the seeds of an arm reach, in the mean and with its interval."""
    difficulties = sorted(map(reached, seeds))
    if difficulties[0] == 0 or difficulties[-1] == inf:
        bounds = {0.0: f"< {min(seeds[0]):g}", inf: f">= {max(seeds[0]):g}"}
        each = [bounds.get(difficulty, _rounded(difficulty)) for difficulty in difficulties]
        return ", ".join(each) if len(set(each)) > 1 else each[0]
    logarithms = [log(difficulty) for difficulty in difficulties]
    middle = exp(mean(logarithms))
    if len(seeds) < 2:
        return _rounded(middle)
    half = exp(t.ppf(0.975, len(seeds) - 1) * stdev(logarithms) / len(seeds) ** 0.5)
    return f"{_rounded(middle)} [{_rounded(middle / half)}, {_rounded(middle * half)}]"


def _rounded(difficulty: float) -> str:
    return f"{float(f'{difficulty:.3g}'):,g}"


def bits_a_parameter(arm: dict[str, Any], losses: list[float]) -> str:
    """Returns the bits that a parameter of an arm stores, from the losses of its seeds in nats."""
    data = arm["task"]["data"]
    parameters = arm["cost"]["parameters"]
    bits = [data["facts"] * (log2(data["values"]) - loss / log(2)) / parameters for loss in losses]
    return f"{mean(bits):.3f} ± {stdev(bits):.3f}" if len(bits) > 1 else f"{bits[0]:.3f}"


def main() -> None:
    """Prints tables in Markdown: a row for each probe, a column for each arm."""
    record = json.loads((Path(sys.argv[1]) / "report.json").read_text(encoding="utf-8"))
    names = {arm["arm"]: arm for arm in record["arms"]}
    losses: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    found: dict[str, dict[str, dict[int, Accuracies]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for cell in record["cells"]:
        arm = names[cell["arm"]]
        task = arm["values"]["task"]
        probe, _, difficulty = task.rpartition(" ")
        plain = cell["arm"].removeprefix(f"{task}: ")
        found[probe][plain][cell["seed"]][float(difficulty)] = cell["metrics"][arm["metric"]]
        if "facts" in arm["task"]["data"]:
            losses[task][plain].append(cell["loss"])
    arms = list(dict.fromkeys(arm for by_arm in found.values() for arm in by_arm))
    print(f"| probe | {' | '.join(arms)} |")
    print(f"| --- |{' --- |' * len(arms)}")
    for probe, by_arm in found.items():
        cells = [described([*by_arm[arm].values()]) for arm in arms]
        print(f"| {probe} | {' | '.join(cells)} |")
    for task, by_loss in losses.items():
        stored = [bits_a_parameter(names[f"{task}: {arm}"], by_loss[arm]) for arm in arms]
        print(f"| {task}, bits a parameter | {' | '.join(stored)} |")


if __name__ == "__main__":
    main()
