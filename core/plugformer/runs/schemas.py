"""What the JSON files of a run look like: whatever is read back is compared with it before it is used."""

from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter


class _Record(BaseModel):
    """A mapping; keys that a later version may add are passed over."""

    model_config = ConfigDict(strict=True, extra="ignore")


class _LockedComponent(_Record):
    distribution: str
    version: str
    source: str


class _Lock(_Record):
    versions: dict[str, str]
    components: dict[str, _LockedComponent]
    hooks: dict[str, _LockedComponent] = {}
    data: dict[str, str]
    changes: list[str] = []
    environment: dict[str, Any] = {}


class _Score(_Record):
    value: float
    low: float
    high: float


class _Scores(_Record):
    metrics: dict[str, _Score]


LOCK = TypeAdapter(_Lock)
EVALUATIONS = TypeAdapter(dict[str, _Scores])
LABELS = TypeAdapter(list[str], config=ConfigDict(strict=True))
CHECKSUMS = TypeAdapter(dict[str, str], config=ConfigDict(strict=True))
