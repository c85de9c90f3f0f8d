"""Predicts the final validation loss of each arm at a rung of a ladder that has not been trained.

    python examples/feed_forwards/predict.py studies/ffn_characters_smaller 5

For each arm, L = E + A C^-a goes through its mean losses at the smaller rungs (Hoffmann et al., 2022, section
3.3, https://arxiv.org/abs/2203.15556). Parameters of a ladder grow as layers^3 and tokens with them, so that
operations C are proportional to layers^6. Bands have the 2.5th and 97.5th percentiles of laws through means
that are drawn anew from multivariate t distributions over the seeds, which keep what arms have in common.
"""

import json
import sys
from pathlib import Path

import numpy as np

from plugformer_ablation.judging.ladder_laws import fit

DRAWS = 2000


def losses_of(study: Path) -> tuple[list[str], dict[int, np.ndarray]]:
    """Returns the names of the arms and, for each number of layers, final losses (arms × seeds)."""
    cells: dict[int, dict[str, dict[int, float]]] = {}
    for cell in json.loads((study / "report.json").read_text(encoding="utf-8"))["cells"]:
        layers, arm = cell["arm"].split(" layers: ")
        cells.setdefault(int(layers), {}).setdefault(arm, {})[cell["seed"]] = cell["loss"]
    rungs = {}
    for layers, arms in sorted(cells.items()):
        seeds = sorted(set.intersection(*(set(losses) for losses in arms.values())))
        rungs[layers] = np.array([[losses[seed] for seed in seeds] for losses in arms.values()])
    return list(arms), rungs


def drawn_means(losses: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Returns means of arms drawn anew (draws × arms)."""
    seeds = losses.shape[1]
    apart = (losses - losses.mean(1, keepdims=True)) / np.sqrt(seeds * (seeds - 1))
    normal = generator.standard_normal((DRAWS, seeds)) @ apart.T  # its covariance is that of the means
    return losses.mean(1) + normal * np.sqrt((seeds - 1) / generator.chisquare(seeds - 1, (DRAWS, 1)))


def main(study: str, layers: str) -> None:
    """Prints the predicted losses, and how they differ from the baseline's."""
    arms, rungs = losses_of(Path(study))
    x = (np.array([*rungs]) / int(layers)) ** 6
    generator = np.random.default_rng(0)
    means = np.stack([losses.mean(1) for losses in rungs.values()], axis=-1)
    drawn = np.stack([drawn_means(losses, generator) for losses in rungs.values()], axis=-1)
    here = np.ones(1)
    middle = fit(x, means).loss(here)[:, 0]
    bands = fit(x, drawn.reshape(-1, len(rungs))).loss(here).reshape(DRAWS, len(arms))
    for arm in np.argsort(middle):
        low, high = np.percentile(bands[:, arm], [2.5, 97.5])
        ends = np.percentile(bands[:, arm] / bands[:, 0] - 1, [2.5, 97.5])
        more = "" if arm == 0 else f"  {middle[arm] / middle[0] - 1:+.2%} [{ends[0]:+.2%}, {ends[1]:+.2%}]"
        print(f"{arms[arm]:42} {middle[arm]:.4f} [{low:.4f}, {high:.4f}]{more}")


if __name__ == "__main__":
    main(*sys.argv[1:])
