"""What follows from a study's results: a summary of each arm, and a judgement of each comparison."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from jaxtyping import Float
from numpy import ndarray

from plugformer_ablation.results import ArmRecord, CellResult, StudyResults
from plugformer_ablation.statistics.bootstrap import resampled
from plugformer_ablation.statistics.contrast import Trials, contrast
from plugformer_ablation.statistics.judgement import Judgement, judge
from plugformer_ablation.statistics.summary import Summary, summarize

LOSS = "validation loss"
"""What reports call it; every study has it, in nats per target."""

Resampled = Mapping[tuple[str, int], Float[ndarray, " resamples"]]
"""By arm and seed."""


@dataclass(frozen=True)
class Cost:
    """What an arm takes: parameters and operations by count, the rest measured, as the median of its cells.

    Attributes:
        parameters: Number of the model's parameters.
        flops_per_token: Floating-point operations of a forward pass for a token.
        peak_memory_mb: Largest memory of the training process or GPU.
        tokens_per_second: Source and target tokens trained on.
        seconds: Wall time of all updates.
    """

    parameters: int
    flops_per_token: float
    peak_memory_mb: float
    tokens_per_second: float
    seconds: float


@dataclass(frozen=True)
class ArmFinding:
    """One arm over its seeds.

    Attributes:
        arm: The arm.
        cells: Those that did not fail.
        failures: Of the others, by seed.
        score: Of the primary metric; None if all cells failed.
        loss: The validation loss.
        others: All other metrics, none of which is judged.
        cost: What it takes; None if all cells failed.
    """

    arm: ArmRecord
    cells: tuple[CellResult, ...]
    failures: Mapping[int, str]
    score: Summary | None
    loss: Summary | None
    others: Mapping[str, Summary]
    cost: Cost | None


@dataclass(frozen=True)
class Comparison:
    """An arm against its baseline.

    Attributes:
        arm: Its name.
        baseline: The baseline's name.
        judgement: On the primary metric.
        loss: The difference of validation losses and its 95 % t interval over seeds, not corrected and not
            judged; None without two pairs.
    """

    arm: str
    baseline: str
    judgement: Judgement
    loss: tuple[float, tuple[float, float]] | None


@dataclass(frozen=True)
class Findings:
    """All that a report tells.

    Attributes:
        results: What they follow from.
        metric: Name of the primary metric.
        higher_is_better: Its direction.
        arms: In the study's order.
        comparisons: In the same order.
    """

    results: StudyResults
    metric: str
    higher_is_better: bool
    arms: tuple[ArmFinding, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def title(self) -> str:
        """What the study is called."""
        return str(self.results.study["study"])

    @property
    def seeds(self) -> list[int]:
        """The study's seeds."""
        return list(self.results.study["seeds"])

    @property
    def split(self) -> str:
        """The split that the study is decided on."""
        return str(self.results.study["split"])

    def comparison_of(self, arm: str) -> Comparison | None:
        """Returns the comparison of an arm with its baseline; None for the baseline."""
        return next((each for each in self.comparisons if each.arm == arm), None)


def find(results: StudyResults) -> Findings:
    """Returns what follows from a study.

    The same results give the same findings: resamples of examples are drawn with a fixed seed.
    """
    metric = str(results.study["metric"])
    arms = tuple(_arm(results, arm, metric) for arm in results.arms)
    higher = results.metrics[metric].higher_is_better
    return Findings(results, metric, higher, arms, _comparisons(results, arms, metric))


def _arm(results: StudyResults, arm: ArmRecord, metric: str) -> ArmFinding:
    cells = results.cells_of(arm.name)
    failures = {
        cell.seed: cell.failure for cell in results.cells if cell.arm == arm.name and cell.failure is not None
    }
    summaries = {name: summarize(_values(cells, name)) for name in results.metrics}
    return ArmFinding(
        arm,
        tuple(cells),
        failures,
        summaries[metric],
        summarize(cell.loss for cell in cells),
        {name: each for name, each in summaries.items() if name != metric and each is not None},
        _cost(cells),
    )


def _values(cells: Iterable[CellResult], metric: str) -> list[float]:
    return [cell.metrics[metric] for cell in cells if metric in cell.metrics]


def _cost(cells: list[CellResult]) -> Cost | None:
    if not cells:
        return None
    measured: dict[str, Any] = {
        name: median(getattr(cell, name) for cell in cells)
        for name in ("flops_per_token", "peak_memory_mb", "tokens_per_second", "seconds")
    }
    return Cost(cells[0].parameters, **measured)


def _comparisons(results: StudyResults, arms: tuple[ArmFinding, ...], metric: str) -> tuple[Comparison, ...]:
    compared = [arm for arm in arms if arm.arm.baseline is not None]
    scores = _resampled(results, arms, metric)
    trials = {arm.arm.name: _trials(arm, metric, scores) for arm in arms}
    seeds = results.study["seeds"]
    contrasts = [contrast(trials[arm.arm.name], trials[str(arm.arm.baseline)], seeds) for arm in compared]
    judgements = judge(contrasts, higher_is_better=results.metrics[metric].higher_is_better)
    by_name = {arm.arm.name: arm for arm in arms}
    return tuple(
        Comparison(
            arm.arm.name,
            str(arm.arm.baseline),
            judgement,
            _loss_difference(arm, by_name[str(arm.arm.baseline)], seeds),
        )
        for arm, judgement in zip(compared, judgements, strict=True)
    )


def _resampled(results: StudyResults, arms: tuple[ArmFinding, ...], metric: str) -> Resampled:
    """Returns the scores of all cells on resampled test sets; cells of as many examples share their draws."""
    sizes: dict[int, list[CellResult]] = {}
    for cell in (cell for arm in arms for cell in arm.cells if metric in cell.statistics):
        sizes.setdefault(len(cell.statistics[metric]), []).append(cell)
    found: dict[tuple[str, int], Float[ndarray, " resamples"]] = {}
    for examples, cells in sizes.items():
        if examples > 1:
            rows = [cell.statistics[metric] for cell in cells]
            scores = resampled(rows, results.metrics[metric].aggregate)
            found |= {(cell.arm, cell.seed): each for cell, each in zip(cells, scores, strict=True)}
    return found


def _trials(arm: ArmFinding, metric: str, scores: Resampled) -> Trials:
    name = arm.arm.name
    sizes = {len(cell.statistics[metric]) for cell in arm.cells if metric in cell.statistics}
    return Trials(
        {cell.seed: cell.metrics[metric] for cell in arm.cells if metric in cell.metrics},
        {cell.seed: scores[name, cell.seed] for cell in arm.cells if (name, cell.seed) in scores},
        sizes.pop() if len(sizes) == 1 else 0,
    )


def _loss_difference(
    arm: ArmFinding, baseline: ArmFinding, seeds: Iterable[int]
) -> tuple[float, tuple[float, float]] | None:
    ours, theirs = ({cell.seed: cell.loss for cell in each.cells} for each in (arm, baseline))
    differences = [ours[seed] - theirs[seed] for seed in seeds if seed in ours and seed in theirs]
    found = summarize(differences)
    return None if found is None or found.interval is None else (found.mean, found.interval)
