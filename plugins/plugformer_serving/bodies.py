"""Bodies of requests as pydantic models, by which they are read, checked and described."""

import asyncio
import inspect
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
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from plugformer_serving.limits import ServerLimits

MAX_OUTPUTS = 100
"""Outputs for each text, at most."""

Count = Annotated[int, Field(ge=1, le=MAX_OUTPUTS)]
"""A number of outputs."""


class Body(BaseModel):
    """An object of JSON that has no other names. Types are not converted; null is as if it were left out."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: item for name, item in value.items() if item is not None}


def _text_or_columns(value: Any) -> Any:
    for question in value if isinstance(value, list) else [value]:
        if not isinstance(question, str | dict) or question == {}:
            told = {"found": repr(question)[:60]}
            raise PydanticCustomError(
                "question", "expected a text or an object of columns, found {found}", told
            )
    return value


Questions = Annotated[Any, AfterValidator(_text_or_columns)]
"""A text, values by column, or a list of these."""


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


async def read(request: Request, schema: type[Body], limits: ServerLimits) -> dict[str, Any]:
    """Returns the values in the body of a request by name.

    Raises:
        HTTPException: The body is not what is expected (400), not called JSON (415), too large (413), or
            comes too slowly (408).
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send JSON with the header Content-Type: application/json")
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                body += part
                if len(body) > limits.body:
                    reason = f"the body is larger than {limits.body:,} bytes; send fewer texts at once"
                    raise HTTPException(413, reason)
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {limits.seconds:g} s") from None
    except ClientDisconnect:
        raise HTTPException(400, "the connection ended within the body") from None
    try:
        return dict(schema.model_validate_json(bytes(body)))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise HTTPException(400, f"{place}: {problem['msg']}" if place else problem["msg"]) from None
