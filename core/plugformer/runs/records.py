"""What the records of a run hold, as far as anything reads it; one that is damaged is refused by its name."""

from typing import Any, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12, and brings it


class _Score(TypedDict):
    value: float
    low: float
    high: float


class _Evaluation(TypedDict):
    metrics: dict[str, _Score]
    examples: int
    unconstrained: NotRequired[dict[str, _Score]]


class _Answer(TypedDict):
    input: dict[str, Any]
    output: Any
    score: float | None


class _SelfCheckRecord(TypedDict):
    passed: bool
    answers: NotRequired[list[_Answer]]


class _Logged(TypedDict):
    event: str
    step: int


class _Progress(TypedDict):
    seconds: float
    tokens: NotRequired[int]


class _State(TypedDict):
    progress: _Progress


EVALUATIONS = TypeAdapter(dict[str, _Evaluation])
SELF_CHECK = TypeAdapter(_SelfCheckRecord)
LOGGED = TypeAdapter(_Logged)
STATE = TypeAdapter(_State)
