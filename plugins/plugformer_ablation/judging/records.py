"""What `report.json` holds: its JSON Schema is made from this, and a report that is read is checked."""

from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12, and brings it

FORMAT: Literal[1] = 1
"""Version of `report.json`; another one is refused."""

Number = float | None
"""Null if it does not exist, or is not finite."""

Needed = dict[Literal["seeds", "examples"], int | None]
"""How many seeds would decide a comparison, if all else stayed; if none would, how many test examples."""

Wins = dict[Literal["better", "worse", "same"], int]
"""Numbers of test examples, by their mean scores over seeds."""


class Ends(TypedDict):
    """The ends of an interval."""

    low: Number
    high: Number


class Spent(TypedDict):
    """Numbers of trainings with the seconds of all of their updates.

    `trials` are those of tuning, `preparation` those of screening and those that trials start from.
    """

    trainings: int
    training_seconds: float
    trials: int
    trial_seconds: float
    preparation: int
    preparation_seconds: float


class Judged(Ends):
    """A difference, its interval from `low` to `high` at `level`, and the verdict, at a `look`.

    `p` is that of a `single` comparison, and `corrected`; `smallest_effect` is what matters, `equivalence`
    the interval by which arms are equivalent. Seeds failed or diverged of the `arm` and of the `baseline`.
    """

    look: int
    pairs: int
    failed_seeds: dict[str, list[int]]
    diverged_seeds: dict[str, list[int]]
    p_diverged: Number
    difference: Number
    level: float
    interval_95: Ends
    p: dict[Literal["single", "corrected"], Number]
    standard_error: dict[Literal["seeds", "examples", "both"], Number]
    effect_size_dz: Number
    smallest_effect: Number
    equivalence: Ends | None
    verdict: str
    would_decide: Needed | None
    notes: list[str]


class ComparisonRecord(Judged):
    """An arm against its baseline; `further` metrics have intervals, and only `metric` a verdict."""

    arm: str
    baseline: str
    metric: str
    higher_is_better: bool
    parameters: dict[Literal["arm", "baseline"], int]
    further: dict[str, dict[str, Number]]
    loss_difference: dict[str, Number]
    speedup: dict[str, Any]
    examples: Wins | None


class OverallRecord(Judged):
    """An arm over all tasks of the study, and on which of them it is better or worse."""

    arm: str
    arms: list[str]
    tasks: list[str]
    metric: str
    higher_is_better: bool
    better_on: list[str]
    worse_on: list[str]


class ChosenSettings(TypedDict):
    """Settings that `seeds` have chosen for themselves, with the `task`, and what is counted of its `cost`.

    `ends` says by seed at which end of the values tried a setting is.
    """

    seeds: list[int]
    tuned: dict[str, Any]
    ends: dict[str, dict[str, str]]
    task: dict[str, Any]
    cost: dict[str, float]


class ArmRecord(TypedDict):
    """One configuration: its `task` without the seed, what it scored over seeds, what it costs and spent.

    `baseline` is null for a baseline; `start` is the arm of an earlier task from which it starts; `test_set`
    is a hash of the baseline's examples that decide, which share draws where they are the same; `made_of`
    one of training data and of components that are not Plugformer's; `failed` has reasons by seed; `tuned`
    is what tuning chose, and `edges` at which end of the values tried that is. Where each seed chose,
    `choices` has it instead, `task` has the first settings tried, and the cost is that of the choice of most
    seeds.
    """

    arm: str
    values: dict[str, str]
    baseline: str | None
    cells: int
    failed: dict[str, str]
    metric: str
    split: str
    start: str | None
    parts: list[str]
    test_set: str
    made_of: str
    score: dict[str, Number] | None
    loss: dict[str, Number] | None
    others: dict[str, dict[str, Number]]
    cost: dict[str, Any]
    spent: Spent
    tuned: dict[str, Any]
    edges: dict[str, str]
    choices: NotRequired[list[ChosenSettings]]
    sensitivity: dict[str, float]
    remarks: list[str]
    task: dict[str, Any]


class ScreeningRecord(TypedDict):
    """An arm, at all tasks and scales, and whether its `p` in the screening let it go on; else no verdict.

    `p` is None where a training failed or has no finite score. Such an arm goes on.
    """

    arm: str
    p: float | None
    confirmed: bool


class LookRecord(TypedDict):
    """A report: its `seeds`, the looks that were `planned`, and the `chance` that any of its verdicts errs.

    `pairs` has the hashes of both arms of each comparison, `tested` that of its metric, its test examples and
    what its arms are made of, and `verdicts` what was said of it; all by name. Reports without a verdict
    have a chance of 0.
    """

    seeds: list[int]
    planned: list[int]
    chance: float
    smallest_effect: float | str | None
    pairs: dict[str, str]
    tested: dict[str, str]
    verdicts: dict[str, str]


@with_config(ConfigDict(extra="forbid"))  # also of all records in it
class ReportRecord(TypedDict):
    """A study as it was declared, and what it found; `CellResult` describes its cells."""

    format: Literal[1]
    study: dict[str, Any]
    arms: list[ArmRecord]
    comparisons: list[ComparisonRecord]
    overall: list[OverallRecord]
    screening: list[ScreeningRecord]
    trials: list[dict[str, Any]]
    preparation: list[dict[str, Any]]
    spent: Spent
    laws: list[dict[str, Any]]
    decision_accuracy: list[dict[str, Any]]
    signal_to_noise: list[dict[str, Any]]
    contrasts: list[dict[str, Any]]
    looks: list[LookRecord]
    made_of: dict[str, Any]
    cells: list[dict[str, Any]]


REPORT_RECORD = TypeAdapter(ReportRecord)


def report_schema() -> dict[str, Any]:
    """Returns the JSON Schema (draft 2020-12) of `report.json`."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **REPORT_RECORD.json_schema()}
