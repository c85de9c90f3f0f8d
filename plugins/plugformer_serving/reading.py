"""Bodies of requests as values; whatever is wrong with one is a reason to refuse it."""

import asyncio
import json
import math
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from plugformer.errors import DataError
from plugformer_blocks import unique_keys
from plugformer_serving.answering import Question
from plugformer_serving.limits import Limits, Refused
from plugformer_serving.schemas import shown

DEEPEST = 16
"""Lists and objects in one another, of a body."""


async def read_object(request: Request, limits: Limits) -> dict[str, Any]:
    """Returns the JSON object that is the body of a request.

    Raises:
        Refused: The body is something else (400), not called JSON (415), too large (413), or comes too slowly
            (408).
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        found = f"the content type is {kind!r}" if kind else "there is no content type"
        raise Refused(415, f"{found}; send JSON with the header Content-Type: application/json")
    size = request.headers.get("content-length", "0")
    if size.isdecimal() and len(size) < 20 and int(size) > limits.body:
        raise _too_large(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                body += part
                if len(body) > limits.body:
                    raise _too_large(limits)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {limits.seconds:g} s") from None
    except ClientDisconnect:
        raise Refused(400, "the connection ended within the body") from None
    return parse_object(bytes(body))


def parse_object(body: bytes) -> dict[str, Any]:
    """Returns the JSON object in bytes; Refused (400) if there is none that is sound."""
    try:
        value = json.loads(body.decode(), parse_constant=_refuse_constant, object_pairs_hook=unique_keys)
    except UnicodeDecodeError as error:
        raise Refused(400, f"the body is not UTF-8 at byte {error.start}") from None
    except DataError as error:
        raise Refused(400, str(error)) from None
    except RecursionError:
        raise Refused(400, f"lists and objects are nested deeper than {DEEPEST}") from None
    except ValueError as error:
        raise Refused(400, f"the body is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refused(400, f"the body is {shown(value)}, expected an object")
    _check_values(value)
    return value


def _check_values(value: Any) -> None:
    """Refuses numbers that are too large and values that are too deep."""
    level = [value]
    for _ in range(DEEPEST):
        if any(isinstance(each, float) and not math.isfinite(each) for each in level):
            raise Refused(400, "a number is too large")
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise Refused(400, f"lists and objects are nested deeper than {DEEPEST}")


def check_count(inputs: Any, limits: Limits) -> list[Question]:
    """Returns the texts of a request as a list; Refused (413) if there are too many."""
    items = inputs if isinstance(inputs, list) else [inputs]
    if len(items) > limits.items:
        raise Refused(413, f"inputs has {len(items):,} items; send {limits.items:,} at most")
    return items


def _too_large(limits: Limits) -> Refused:
    return Refused(413, f"the body is larger than {limits.body:,} bytes; send fewer texts at once")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
