"""Power laws of the loss over the scales of a study, and what they say at and beyond the largest one."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer_ablation.design.arms import SCALE, TASK, context_name, plain_name
from plugformer_ablation.judging.currency import LEVEL
from plugformer_ablation.judging.results import Record, StudyResults, flops_of

RUNGS = 4
"""Fewest scales of a law: it has three parameters, and the largest scale is left out to try it."""

BEYOND = 10.0
"""A law is told up to so many times the operations of the largest scale."""

DRAWS = 500
_POINTS = 15  # of the curve in a report, up to the largest scale and beyond it
_EXPONENTS = np.geomspace(0.01, 3.0, 25)
_FINER = (np.geomspace(1 / 1.27, 1.27, 15), np.geomspace(1 / 1.036, 1.036, 15))  # around the best one


class Rung(NamedTuple):
    """One scale of an arm: the operations of a training, and the final validation loss of each seed."""

    operations: float
    losses: Float[ndarray, " seeds"]


class PowerLaw(NamedTuple):
    """L = E + A x^-a, one for each element; x are operations over those of the largest scale."""

    irreducible: Float[ndarray, " laws"]
    reducible: Float[ndarray, " laws"]
    exponent: Float[ndarray, " laws"]

    def loss(self, x: Float[ndarray, " points"]) -> Float[ndarray, "laws points"]:
        """Returns the losses at relative operations."""
        losses: ndarray = self.irreducible[:, None] + self.reducible[:, None] * x ** -self.exponent[:, None]
        return losses

    def operations(self, losses: Float[ndarray, " laws"]) -> Float[ndarray, " laws"]:
        """Returns the relative operations at which each law has a loss; infinite if it never has."""
        with np.errstate(divide="ignore", invalid="ignore"):
            x = ((losses - self.irreducible) / self.reducible) ** (-1 / self.exponent)
        return np.where(losses > self.irreducible, x, np.inf)


def training_operations(results: StudyResults, arm: Record) -> float:
    """Returns the operations of an arm's training, forward and backward; 0 if its tokens are not known.

    Those backward are twice those forward: Kaplan et al. (2020), section 2.1,
    https://arxiv.org/abs/2001.08361.
    """
    made = [cell for cell in results.cells_of(arm["name"]) if cell.tokens]  # not of trainings that broke off
    return float(median(3 * flops_of(arm, cell.seed) * cell.tokens for cell in made)) if made else 0.0


def power_laws(results: StudyResults) -> list[Record]:
    """Returns the power law of each `arm` that has several scales, on each task."""
    ladders: dict[str, list[Rung]] = {}
    names: dict[str | None, str] = {}
    for arm in results.arms:
        cells, values = results.cells_of(arm["name"]), arm["values"]
        losses = np.array([np.nan if cell.diverged else cell.loss for cell in cells])
        name = context_name({TASK: values.get(TASK, "")}, plain_name(arm["name"], values))
        ladders.setdefault(name, []).append(Rung(training_operations(results, arm), losses))
        names[arm["name"]] = name
    baselines = {
        names[arm["name"]]: names.get(arm["baseline"]) for arm in results.arms if SCALE in arm["values"]
    }
    return [
        {"arm": name, **power_law(ladders[name], ladders[baseline] if baseline else None)}
        for name, baseline in baselines.items()
    ]


def power_law(rungs: Sequence[Rung], baseline: Sequence[Rung] | None = None) -> Record:
    """Returns the law of an arm over its scales, the smallest first, with bands over seeds.

    A band has the percentiles of laws that are fitted to means drawn anew. Each varies as in a t distribution
    with the relative deviation of losses over seeds, which is taken to be the same at all scales, so that all
    of them estimate it: to resample the few seeds of each scale, the usual bootstrap, gives bands that are
    too narrow. How often they cover: benchmarks/ladders.py. No band covers losses that follow another law.

    Args:
        rungs: Of the arm.
        baseline: Of its baseline, at the same scales.

    Returns:
        The parameters of `PowerLaw`; `operations` and mean `loss` of the `scales`; the `curve`, with `low`
        and `high` at each point; the loss that the other scales `predicted` at the largest; and `multiplier`,
        how many times the operations of the largest scale the baseline needs to be as good as the arm is
        there, by both laws; none where that of the baseline does not hold. Its `ratio`, or an end of its
        band, is None if the baseline never is. With one seed there are no bands. Without a law, a `note`
        says why.
    """
    if note := _refusal(rungs):
        return {"note": note}
    x, means = _means(rungs)
    largest = rungs[-1].operations
    laws = _laws(rungs, largest, seed=0)
    points = np.concatenate([np.geomspace(x[0] / largest, 1, _POINTS), np.geomspace(1, BEYOND, _POINTS)[1:]])
    record: Record = {
        **{name: float(values[0]) for name, values in laws._asdict().items()},
        "scales": {"operations": x.tolist(), "loss": means.tolist()},
        "predicted": fit(x[:-1] / largest, means[None, :-1]).loss(np.ones(1)).item(),
        "curve": {"operations": (points * largest).tolist(), **_band("loss", laws.loss(points))},
    }
    others = None if baseline is None or _refusal(baseline) else _laws(baseline, largest, seed=1)
    if others is not None and others.irreducible[0]:  # else the law of the baseline does not hold
        ratios = others.operations(laws.loss(np.ones(1))[:, 0])
        record["multiplier"] = {name: end for name, (end,) in _band("ratio", ratios[:, None]).items()}
    return record


def fit(x: Float[ndarray, " rungs"], losses: Float[ndarray, "laws rungs"]) -> PowerLaw:
    """Returns the laws with the least squared relative errors, E and A being at least 0.

    For an exponent they follow from linear least squares; it is searched for between 0.01 and 3. The law is
    that of Hoffmann et al. (2022), section 3.3, https://arxiv.org/abs/2203.15556, in operations alone.
    """
    best = _least(x, losses, np.broadcast_to(_EXPONENTS, (len(losses), len(_EXPONENTS))))
    for factors in _FINER:
        best = _least(x, losses, best.exponent[:, None] * factors)
    return best


def _least(
    x: Float[ndarray, " rungs"], losses: Float[ndarray, "laws rungs"], exponents: Float[ndarray, "laws tried"]
) -> PowerLaw:
    """Returns for each row of losses the law with the best of its exponents."""
    losses = losses[:, None]
    weights = losses**-2 / (losses**-2).sum(-1, keepdims=True)
    powers = x ** -exponents[..., None]
    middle, mean = (weights * powers).sum(-1), (weights * losses).sum(-1)
    above = powers - middle[..., None]
    slope = (weights * above * losses).sum(-1) / (weights * above**2).sum(-1)
    through_zero = (weights * powers * losses).sum(-1) / (weights * powers**2).sum(-1)
    reducible = np.where(mean > slope * middle, np.maximum(slope, 0.0), through_zero)
    irreducible = np.where(mean > slope * middle, mean - reducible * middle, 0.0)
    errors = losses - irreducible[..., None] - reducible[..., None] * powers
    best = (weights * errors**2).sum(-1).argmin(-1, keepdims=True)
    found = (irreducible, reducible, exponents)
    return PowerLaw(*(np.take_along_axis(values, best, -1)[:, 0] for values in found))


def _refusal(rungs: Sequence[Rung]) -> str:
    """Returns the reason for having no law; empty if there is one."""
    operations = [rung.operations for rung in rungs]
    if len(rungs) < RUNGS:
        return f"a power law needs at least {RUNGS} scales, and there are {len(rungs)}"
    if not all(operations) or sorted(set(operations)) != operations:
        return "the operations of the scales are not known, or do not rise"
    if any(not len(rung.losses) or not np.isfinite(rung.losses).all() for rung in rungs):
        return "a scale has no training, or one that diverged"
    return ""


def _means(rungs: Sequence[Rung]) -> tuple[Float[ndarray, " rungs"], Float[ndarray, " rungs"]]:
    return np.array([rung.operations for rung in rungs]), np.array([rung.losses.mean() for rung in rungs])


def _laws(rungs: Sequence[Rung], unit: float, seed: int) -> PowerLaw:
    """Returns the law of the means, then those of means that are drawn anew, NaN with one seed."""
    (operations, means), sizes = _means(rungs), np.array([len(rung.losses) for rung in rungs])
    squares = sum(((rung.losses / rung.losses.mean() - 1) ** 2).sum() for rung in rungs)
    generator, freedom = np.random.default_rng(seed), int((sizes - 1).sum())
    variances = squares / generator.chisquare(freedom, (DRAWS, 1)) if freedom else np.nan
    drawn = means * (1 + np.sqrt(variances / sizes) * generator.standard_normal((DRAWS, len(rungs))))
    return fit(operations / unit, np.concatenate([means[None], drawn]))


def _band(name: str, values: Float[ndarray, "laws points"]) -> dict[str, list[float | None]]:
    """Returns the first values by name, and the ends of a band of the others; None where one is infinite."""
    ends = np.quantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0, method="inverted_cdf")
    return {
        key: [float(number) if np.isfinite(number) else None for number in row]
        for key, row in zip((name, "low", "high"), (values[0], *ends), strict=True)
    }
