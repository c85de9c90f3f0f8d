"""From the cells of a study to its results."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plugformer.configuration import plain
from plugformer.registry import Registry
from plugformer_ablation.arms import BASELINE
from plugformer_ablation.declaration import Declared
from plugformer_ablation.fairness import Priced, deciding_split
from plugformer_ablation.identity import ingredients, written
from plugformer_ablation.resolution import primary_metric
from plugformer_ablation.results import CellResult, Record, StudyResults, create_metrics


@dataclass(frozen=True)
class Outcome:
    """What a study is decided by, declared before anything is run.

    Attributes:
        declared: The study.
        split: The split it is decided on.
        metric: Name of the primary metric.
        blocks: Name and options of each metric, by the name of its score.
        registry: Knows the metrics.
    """

    declared: Declared
    split: str
    metric: str
    blocks: dict[str, dict[str, Any]]
    registry: Registry

    @classmethod
    def begun(cls, declared: Declared, baseline: Priced) -> "Outcome":
        """Returns what a study is decided by.

        Args:
            declared: The study.
            baseline: Its first arm; all have the same metrics.
        """
        metrics = baseline.resolved.task.evaluation.metrics
        blocks = {each.score_name: {"name": each.name, **each.options} for each in metrics}
        split, metric = deciding_split(declared, baseline.facts), primary_metric(declared, baseline.resolved)
        return cls(declared, split, metric, blocks, baseline.resolved.registry)

    @property
    def higher_is_better(self) -> bool:
        """Direction of the primary metric."""
        return create_metrics(self.blocks, self.registry)[self.metric].higher_is_better

    def results(self, arms: Sequence[Priced], cells: Sequence[CellResult]) -> StudyResults:
        """Returns the results of the study.

        Args:
            arms: In their order.
            cells: Their results; arms of which no trial was finished have none.
        """
        study = self.declared.study
        record = {
            **study.model_dump(mode="json", by_alias=True),
            "study": study.study or f"{study.task}: {', '.join(study.factors)}",
            "metric": self.metric,
            "split": self.split,
            "seeds": study.seed_list,
        }
        untuned = [
            CellResult(arm.name, seed, failure=arm.failure)
            for arm in arms
            if arm.failure is not None
            for seed in study.seed_list
        ]
        return StudyResults(
            study=record,
            arms=tuple(_record(arm) for arm in arms),
            cells=(*cells, *untuned),
            blocks=self.blocks,
            made_of=_made_of(arms),
            metrics=create_metrics(self.blocks, self.registry),
        )


def _record(arm: Priced) -> Record:
    task = written(arm.resolved.task)
    task["training"].pop("seed")
    return {
        "name": arm.name,
        "values": {factor: change.label for factor, change in arm.variant.arm.changes.items()},
        "baseline": None if arm.name == BASELINE else BASELINE,
        "task": task,
        "notes": list(arm.notes),
        "tuned": {path: plain(change.node) for path, change in arm.variant.tuned.items()},
    }


def _made_of(arms: Sequence[Priced]) -> dict[str, Any]:
    """Returns what the arms were made of; their training data may differ, then the baseline's stand here."""
    parts = [ingredients(arm.resolved, arm.facts.hashes) for arm in arms]
    used = {name: lock for each in parts for name, lock in each["components"].items()}
    first = {key: parts[0][key] for key in ("versions", "core", "data")}
    return {**first, "components": dict(sorted(used.items()))}
