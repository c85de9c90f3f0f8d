"""How often intervals over seeds and examples exclude a difference of 0, by the way their margin is made.

    python benchmarks/interval_margins.py

Differences are normal: each seed's own part, and a part that all seeds share because they are scored on the
same examples, whose error is known. Figures are multiples of the share that an interval's level allows.
"""

import argparse

import numpy as np
from scipy.special import stdtrit

EXAMPLES = 999.0
"""Degrees of freedom of the error over examples."""

CASES = (
    *((2, 0.05, 20, 1), (2, 0.0125, 20, 1), (2, 0.0125, 1, 1)),
    *((3, 0.0125, 20, 1), (3, 0.0125, 5, 1), (3, 0.0125, 1, 1)),
    *((5, 0.0125, 20, 1), (5, 0.0125, 5, 1), (5, 0.0125, 1, 1), (5, 0.0125, 1, 20), (5, 0.0125, 0, 1)),
)
"""Seeds, level, and how the variance of the difference comes from seeds and from examples."""


def alarms(seeds: int, level: float, own: float, shared: float, studies: int) -> list[float]:
    """Returns the shares of excluded zeros: Satterthwaite, the same or the paired t test, squared margins."""
    generator = np.random.default_rng(0)
    scale = own + shared
    drawn = generator.normal(0, (seeds * own / scale) ** 0.5, (studies, seeds))
    differences = drawn.mean(1) + generator.normal(0, (shared / scale) ** 0.5, studies)
    over_seeds, over_examples = drawn.var(1, ddof=1) / seeds, shared / scale
    error = over_seeds + over_examples
    freedom = error**2 / (over_seeds**2 / (seeds - 1) + over_examples**2 / EXAMPLES)
    t = [-stdtrit(each, level / 2) for each in (freedom, seeds - 1, EXAMPLES)]
    satterthwaite, paired = t[0] ** 2 * error, t[1] ** 2 * over_seeds
    margins = (satterthwaite, np.maximum(satterthwaite, paired), paired + t[2] ** 2 * over_examples)
    return [float((differences**2 > margin).mean()) for margin in margins]


def main() -> None:
    """Prints a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--studies", type=int, default=200_000)
    options = parser.parse_args()
    print("| seeds | level | variance by seeds : examples | Satterthwaite | or paired t | squared margins |")
    print("| --- | --- | --- | --- | --- | --- |")
    for seeds, level, own, shared in CASES:
        found = alarms(seeds, level, own, shared, options.studies)
        cells = " | ".join(f"{share / level:.1f}" for share in found)
        print(f"| {seeds} | {level} | {own} : {shared} | {cells} |")


if __name__ == "__main__":
    main()
