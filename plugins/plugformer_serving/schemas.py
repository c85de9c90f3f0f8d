"""Bodies of requests as pydantic models, by which they are checked and described."""

import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from plugformer.errors import nearest
from plugformer_serving.limits import Refused

MOST_OUTPUTS = 100
"""Outputs for each text, at most."""

Count = Annotated[int, Field(ge=1, le=MOST_OUTPUTS)]
"""A number of outputs."""


class Body(BaseModel):
    """An object of JSON that has no other names. Types are not converted; null is as if it were left out."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _only_known_names(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        for name in value:
            if name not in cls.model_fields:
                told = {"name": repr(name[:80]), "hint": nearest(name[:80], [*cls.model_fields])}
                message = "unknown name {name}{hint}; expected {known}"
                raise PydanticCustomError("unknown", message, told | {"known": ", ".join(cls.model_fields)})
        return {name: item for name, item in value.items() if item is not None}


def _text_or_columns(value: Any) -> Any:
    if not isinstance(value, str | dict) or value == {}:
        raise PydanticCustomError("question", "expected a text or an object of columns")
    return value


AnyQuestion = Annotated[Any, AfterValidator(_text_or_columns)]
"""A text, with surrogates or without, or values by column."""


class Record(BaseModel):
    """The answer to a text."""

    input: Any
    output: Any = Field(description="The output; null if there is an error.")
    score: float | None = Field(None, description="Natural logarithm of the probability.")
    error: str = ""
    truncated: bool = False
    unknown: list[str] = []
    alternatives: list[dict[str, Any]] = []
    probabilities: Any = Field(None, description="Of all classes, or of those of each word.")


def body_of(function: Callable[..., Any], name: str, **types: Any) -> type[Body]:
    """Returns the model of a body that has the keyword-only parameters of a function, some of other types."""
    fields: dict[str, Any] = {
        each.name: (
            types.get(each.name, each.annotation),
            ... if each.default is each.empty else each.default,
        )
        for each in inspect.signature(function).parameters.values()
        if each.kind is each.KEYWORD_ONLY
    }
    return create_model(name, __base__=Body, **fields)


def validated(schema: type[Body], value: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of a request's body by name; Refused (400) if it does not fit."""
    try:
        return dict(schema.model_validate(value))
    except ValidationError as error:
        problems: dict[tuple[Any, ...], list[Any]] = {}
        for problem in error.errors(include_url=False, include_context=False):
            problems.setdefault(_place(value, problem["loc"]), []).append(problem)
    place = max(problems, key=len)  # of several types, the one that fits furthest
    first, *_ = problems[place]
    found: Any = value
    for step in place:
        found = found[step]
    name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)[1:]
    messages = dict.fromkeys(problem["msg"] for problem in problems[place])
    if first["type"] == "missing":
        raise Refused(400, f"{'.'.join(map(str, first['loc']))} is missing")
    if first["type"] == "unknown":
        raise Refused(400, f"{name}: {first['msg']}" if name else first["msg"])
    raise Refused(400, f"{name} is {shown(found)}: {', or '.join(messages)}")


def _place(value: Any, steps: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns where a problem is: pydantic also names the types that it has tried."""
    place: list[Any] = []
    for step in steps:
        if (isinstance(value, dict) and step in value) or (isinstance(value, list) and isinstance(step, int)):
            value = value[step]
            place.append(step)
    return tuple(place)


def shown(value: Any) -> str:
    """Returns a value as JSON, shortened."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
