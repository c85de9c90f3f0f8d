"""Findings for other programs: one JSON object, and rows of tables."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from plugformer_ablation.findings import ArmFinding, Comparison, Findings
from plugformer_ablation.results import CellResult
from plugformer_ablation.statistics.summary import Summary

Record = dict[str, Any]


def report_record(findings: Findings) -> Record:
    """Returns everything that was found, without the curves and statistics of single cells."""
    return {
        "study": findings.results.study,
        "metric": findings.metric,
        "higher_is_better": findings.higher_is_better,
        "arms": [_arm(each) for each in findings.arms],
        "comparisons": [_comparison(each) for each in findings.comparisons],
        "made_of": findings.results.made_of,
    }


def arm_rows(findings: Findings) -> list[Record]:
    """Returns a flat row for each arm, with its comparison beside it."""
    rows = []
    for arm in findings.arms:
        comparison = findings.comparison_of(arm.arm.name)
        record = {key: value for key, value in _arm(arm).items() if key not in ("task", "values", "tuned")}
        record["failed"] = [f"seed {seed}: {why}" for seed, why in arm.failures.items()]
        rows.append(flat(record | ({} if comparison is None else _comparison(comparison))))
    return rows


def cell_rows(findings: Findings) -> list[Record]:
    """Returns a flat row for each cell, failed ones included."""
    return [_cell(cell) for cell in findings.results.cells]


def flat(record: Mapping[str, Any], prefix: str = "") -> Record:
    """Returns nested mappings as one, with dots in the keys; lists become text."""
    found: Record = {}
    for key, value in record.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            found[f"{prefix}{key}"] = "; ".join(map(str, value))
        else:
            found[f"{prefix}{key}"] = value
    return found


def _arm(arm: ArmFinding) -> Record:
    return {
        "arm": arm.arm.name,
        "values": arm.arm.values,
        "baseline": arm.arm.baseline,
        "cells": len(arm.cells),
        "failed": {str(seed): why for seed, why in arm.failures.items()},
        "score": _summary(arm.score),
        "loss": _summary(arm.loss),
        "others": {name: _summary(each) for name, each in arm.others.items()},
        "cost": None if arm.cost is None else vars(arm.cost),
        "tuned": arm.arm.tuned,
        "remarks": list(arm.arm.notes),
        "task": arm.arm.task,
    }


def _summary(summary: Summary | None) -> Record | None:
    if summary is None:
        return None
    return {
        "mean": summary.mean,
        "deviation": summary.deviation,
        **_ends(summary.interval),
        "seeds": summary.count,
    }


def _comparison(comparison: Comparison) -> Record:
    judgement = comparison.judgement
    contrast = judgement.contrast
    errors = {"seeds": contrast.seeds, "examples": contrast.examples, "both": contrast.both}
    loss, interval = comparison.loss or (None, None)
    return {
        "arm": comparison.arm,
        "baseline": comparison.baseline,
        "pairs": contrast.pairs,
        "difference": contrast.difference,
        "level": judgement.level,
        **_ends(judgement.interval),
        "interval_95": _ends(judgement.plain_interval),
        "p": {"single": contrast.p, "corrected": judgement.p},
        "standard_error": {name: None if each is None else each.error for name, each in errors.items()},
        "effect_size_dz": contrast.effect_size,
        "verdict": str(judgement.verdict),
        "minimum_detectable_difference": judgement.minimum_detectable_difference,
        "notes": list(contrast.notes),
        "loss_difference": {"mean": loss, **_ends(interval)},
    }


def _ends(interval: tuple[float, float] | None) -> Record:
    low, high = interval or (None, None)
    return {"low": _number(low), "high": _number(high)}


def _number(value: float | None) -> float | None:
    """Returns a number as JSON can hold it, which knows neither infinity nor NaN."""
    return value if value is not None and isfinite(value) else None


def _cell(cell: CellResult) -> Record:
    return {
        "arm": cell.arm,
        "seed": cell.seed,
        "loss": _number(cell.loss),
        **{name: _number(value) for name, value in cell.metrics.items()},
        "parameters": cell.parameters,
        "flops_per_token": cell.flops_per_token,
        "peak_memory_mb": cell.peak_memory_mb,
        "tokens_per_second": cell.tokens_per_second,
        "seconds": cell.seconds,
        "directory": cell.directory,
        "failure": cell.failure,
    }
