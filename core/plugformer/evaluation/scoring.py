"""Scores of metrics: the statistics of each example, and one number of all.

A metric is code of a plugin, so its results are checked here, before anything is computed with them.
"""

import math
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from plugformer.errors import DataError, RegistryError
from plugformer.evaluation.report import Score
from plugformer.interfaces import LikelihoodMetric, OutputMetric, SourceMetric

OfFamily = OutputMetric | SourceMetric | LikelihoodMetric


def aggregated(metric: OfFamily, *given: Any) -> tuple[float, Float[ndarray, "examples statistics"]]:
    """Returns a metric's value, and the statistics that it is the aggregate of.

    Args:
        metric: The metric.
        *given: Arguments of its `statistics`: columns of one length, the number of examples.

    Raises:
        RegistryError: The statistics are not finite numbers, one row for each example, or the aggregate is
            not one finite number.
    """
    values = metric.statistics(*given)
    try:
        statistics = np.asarray(values)
    except ValueError:  # rows of different length
        statistics = np.empty(0, dtype=object)
    if statistics.dtype.kind not in "biuf" or not np.ndim(statistics):
        raise _broken(metric, f"the statistics are {_shown(values)}, expected an array of numbers")
    if len(statistics) != len(given[0]):
        raise _broken(metric, f"{len(given[0])} examples have {len(statistics)} rows of statistics")
    finite = np.isfinite(statistics).reshape(len(statistics), -1).all(axis=1)
    if not finite.all():
        row = int(finite.argmin())
        raise _broken(
            metric, f"the statistics of example {row + 1} are {statistics[row]}, expected finite numbers"
        )
    return _number(metric, metric.aggregate(statistics), "the aggregate"), statistics


def measure(metric: OfFamily, *given: Any) -> tuple[Score, Float[ndarray, "examples statistics"]]:
    """Returns a metric's score, and each example's statistics that it is the aggregate of.

    Args:
        metric: The metric.
        *given: Arguments of its `statistics`: columns of one length, the number of examples.

    Raises:
        DataError: There is no example.
        RegistryError: The metric returns something else than a score.
    """
    if not len(given[0]):
        raise DataError(
            f"{type(metric).__name__}: there are 0 examples to score, expected at least 1; "
            "check the split and evaluation.limit"
        )
    value, statistics = aggregated(metric, *given)
    low, high = (_number(metric, end, "an end of the interval") for end in metric.interval(statistics))
    score = Score(value=value, low=low, high=high)
    if isinstance(metric, OutputMetric) and (signature := metric.signature(given[1])):
        score["signature"] = signature
    if not isinstance(metric, LikelihoodMetric) and (table := metric.table(*given)) is not None:
        score["table"] = asdict(table)
    return score, statistics


def _number(metric: OfFamily, value: object, what: str) -> float:
    """Returns a value as a float; raises RegistryError if it is not one finite number."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number):
            return number
    raise _broken(metric, f"{what} is {_shown(value)}, expected a finite number")


def _shown(value: object) -> str:
    simple = isinstance(value, int | float | str | None)
    return repr(value)[:60] if simple else f"of the type {type(value).__name__}"


def _broken(metric: OfFamily, problem: str) -> RegistryError:
    return RegistryError(
        f"metric {type(metric).__name__}: {problem}; correct the metric: where it is not defined, it "
        "chooses a number, such as 0"
    )
