"""What the JSON files of a run must hold; further keys are allowed."""

from typing import Annotated, Any, NotRequired

from packaging.version import Version
from pydantic import AfterValidator, ConfigDict, TypeAdapter
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12, and brings it

_STRICT = ConfigDict(strict=True)


def _version(text: str) -> str:
    Version(text)  # raises a ValueError
    return text


class _Versions(TypedDict):
    plugformer: Annotated[str, AfterValidator(_version)]


class _Component(TypedDict):
    distribution: str
    version: str
    source: str
    files: NotRequired[dict[str, str]]


class _Environment(TypedDict):
    device: str
    processes: int
    precision: str
    versions: dict[str, str]
    system: str
    processor: str


class _Lock(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]  # pydantic reads it
    versions: _Versions
    components: dict[str, _Component]
    data: dict[str, str]
    task: NotRequired[dict[str, str]]
    files: NotRequired[dict[str, str]]
    examples: NotRequired[dict[str, int]]
    environment: NotRequired[_Environment]
    changes: NotRequired[list[str]]


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


class _SelfCheck(TypedDict):
    passed: bool
    answers: NotRequired[list[_Answer]]


class _Logged(TypedDict):
    event: str
    step: int


class _Progress(TypedDict):
    seconds: float


class _State(TypedDict):
    progress: _Progress


LOCK = TypeAdapter(_Lock)
EVALUATIONS = TypeAdapter(dict[str, _Evaluation])
SELF_CHECK = TypeAdapter(_SelfCheck)
LOG = TypeAdapter(list[_Logged])
STATE = TypeAdapter(_State)
