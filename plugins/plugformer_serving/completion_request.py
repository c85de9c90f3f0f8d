"""What a request for completions asks for.

https://platform.openai.com/docs/api-reference/completions/create
"""

import inspect
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from plugformer.registry import Kind
from plugformer_serving.answering import Manner
from plugformer_serving.limits import Refused
from plugformer_serving.service import Service

DEFAULT_TOKENS = 16
"""Tokens of a completion, as OpenAI's."""

Tokens = Annotated[int, Field(ge=1)] | None
Temperature = Annotated[float, Field(ge=0, le=100)] | None
TopP = Annotated[float, Field(gt=0, le=1)] | None
Seed = Annotated[int, Field(ge=0)] | None
_Stop = Annotated[str, Field(min_length=1)]
Stop = _Stop | Annotated[list[_Stop], Field(max_length=4)] | None


@dataclass(frozen=True)
class Wanted:
    """What is asked of a model that continues texts.

    Attributes:
        prompts: What is continued.
        count: Continuations of each.
        most: Tokens of one at most.
        stops: Texts that end one.
        manner: How they are computed.
        drawn: Whether they are drawn at random.
    """

    prompts: list[str]
    count: int
    most: int
    stops: list[str]
    manner: Manner
    drawn: bool


def wanted(
    service: Service,
    prompts: list[str],
    count: int,
    most: int | None,
    stop: str | list[str] | None,
    **options: float | None,
) -> Wanted:
    """Returns what a request asks for.

    Args:
        service: The model.
        prompts: What is continued.
        count: Continuations of each prompt.
        most: Tokens of one at most; `DEFAULT_TOKENS` if it is None.
        stop: A text that ends one, or several.
        options: `temperature`, `top_p` and `seed`; None for what the task says.

    Raises:
        Refused: It asks for something that there is not (400), or too much (413).
    """
    if (choices := len(prompts) * count) > service.limits.items:
        raise Refused(413, f"{choices:,} choices are asked for, more than {service.limits.items:,}")
    if most is not None and most > service.limits.tokens:
        raise Refused(400, f"max_tokens is {most:,}; ask for {service.limits.tokens:,} at most")
    if most is not None and service.trained.task.decoding.length is not None:
        raise Refused(400, "max_tokens: the task's decoding.length fixes the length of outputs; leave it out")
    stops = [stop] if isinstance(stop, str) else stop or []
    found, drawn = decoding_options(service, options)
    manner = Manner(n_best=1 if drawn else count, most=most or DEFAULT_TOKENS, options=found)
    return Wanted(prompts, count, most or DEFAULT_TOKENS, stops, manner, drawn)


def decoding_options(
    service: Service, asked: dict[str, float | None]
) -> tuple[tuple[tuple[str, float], ...], bool]:
    """Returns a request's options of the decoding, and whether this draws at random.

    Raises:
        Refused: The decoding has no such option (400).
    """
    block = service.trained.task.decoding
    decoding = service.trained.experiment.create(Kind.DECODING, block)
    known = inspect.signature(type(decoding)).parameters
    options: dict[str, float] = {}
    for name, usual in (("temperature", 0.0), ("top_p", 1.0), ("seed", asked["seed"])):
        if (value := asked[name]) is not None and name in known:
            options[name] = max(value, 1e-6) if name == "temperature" else value  # its limit: no chance
        elif value not in (None, usual):
            hint = "serve with --set decoding.name=sampling"
            raise Refused(400, f"{name} is {value:g}, but decoding {block.name!r} has none; {hint}")
    return tuple(options.items()), "seed" in known
