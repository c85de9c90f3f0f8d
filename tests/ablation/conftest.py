"""A made-up study whose outcome is known, without any training."""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plugformer_ablation.judging.results import CellResult, StudyResults
from plugformer_ablation.running.costs import relative_cost
from plugformer_plugins.metric.accuracy import ExactMatch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MakeUp = Callable[..., StudyResults]


def _cell(arm: str, seed: int, accuracy: float, examples: int) -> CellResult:
    """Returns a cell that answers rightly with a probability; what is hard is so for all cells."""
    generator = np.random.default_rng([seed, *arm.encode()])
    difficulty = np.random.default_rng(0).random(examples)
    luck = generator.normal(0, 0.012)
    right = (0.7 * difficulty + 0.3 * generator.random(examples) < _level(accuracy + luck)).astype(float)
    score = float(right.mean())
    final = 0.02 + 0.8 * (1 - accuracy) ** 0.8 * generator.uniform(0.85, 1.15)
    curve = [
        {
            "step": step,
            "loss": float(2.5 * np.exp(-step / 90) + final),
            "metrics": {"exact_match": score * share ** (1.3 - 8 * luck)},
        }
        for step, share in zip(range(100, 700, 100), (0.02, 0.3, 0.75, 0.92, 0.98, 1.0), strict=True)
    ]
    return CellResult(
        arm,
        seed,
        loss=curve[-1]["loss"],
        metrics={"exact_match": score, "first_half": float(right[: examples // 2].mean())},
        statistics={"exact_match": right[:, None]},
        curve=curve,
        peak_memory_mb=410.0 + len(arm),
        seconds=60 * generator.uniform(0.9, 1.1),
        directory=f"cells/{arm}-{seed}",
    )


def _level(accuracy: float) -> float:
    """Returns below which value 0.7 u + 0.3 v lies with a probability, u and v uniform."""
    draws = np.random.default_rng(1).random((2, 20_000))
    return float(np.quantile(0.7 * draws[0] + 0.3 * draws[1], np.clip(accuracy, 0, 1)))


@pytest.fixture(scope="session")
def benchmark() -> Callable[[str], Any]:
    """Returns what imports a simulation of `benchmarks`."""

    def load(name: str) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(BENCHMARKS)
            return importlib.import_module(name)

    return load


@pytest.fixture(scope="session")
def made_up() -> MakeUp:
    """Returns what makes a study up."""

    def make(
        accuracies: Mapping[str, float],
        seeds: int = 5,
        examples: int = 500,
        cells: tuple[CellResult, ...] = (),
    ) -> StudyResults:
        """Returns a study.

        Args:
            accuracies: Of each arm, the baseline first.
            seeds: How many.
            examples: How many.
            cells: They replace those of the same arm and seed.
        """
        numbers = list(range(1, seeds + 1))
        baseline = next(iter(accuracies))
        arms = tuple(
            {
                "name": arm,
                "values": {"attention": arm},
                "baseline": None if arm == baseline else baseline,
                "metric": "exact_match",
                "split": "test",
                "start": None,
                "parts": [],
                "test_set": "5e1f",
                "made_of": "",
                "task": {
                    "type": "sequence-to-sequence",
                    "model": {"width": 128, "ffn_width": 512 + 8 * index, "attention": {"name": arm}},
                    "evaluation": {"metrics": ["exact_match"]},
                },
                "notes": ["parameters 1.4 % above the baseline's: no feed-forward width comes closer"]
                if index == 1
                else [],
                "tuned": {},
                "edges": {},
                "choices": [],
                "cost": {
                    "parameters": 200_000 + 600 * index,
                    "flops": 390_000.0 * (1 + 0.1 * index),
                    "elements": 8_000.0,
                    "update": relative_cost([1 + 0.1 * index] * 12, [1.0] * 12),
                },
            }
            for index, arm in enumerate(accuracies)
        )
        replaced = {(cell.arm, cell.seed): cell for cell in cells}
        return StudyResults(
            {
                "study": "attention on dates",
                "metric": "exact_match",
                "split": "test",
                "seeds": numbers,
                "looks": [seeds],
                "smallest_effect": None,
            },
            arms,
            tuple(
                replaced.get((arm, seed)) or _cell(arm, seed, accuracy, examples)
                for arm, accuracy in accuracies.items()
                for seed in numbers
            ),
            {"versions": {"plugformer": "0.1.0"}, "core": "9c5f", "components": {"attention/mha": "1a2b"}},
            {key: {"exact_match": ExactMatch(), "first_half": ExactMatch()} for key in accuracies},
        )

    return make
