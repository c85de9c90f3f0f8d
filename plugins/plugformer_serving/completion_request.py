"""What a request for completions asks for.

https://platform.openai.com/docs/api-reference/completions/create
"""

import inspect
from dataclasses import dataclass
from typing import Any

from plugformer.registry import Kind
from plugformer_serving.answering import Manner
from plugformer_serving.limits import Refused
from plugformer_serving.reading import MOST_OUTPUTS, check_names, read_count, read_flag, read_number, shown
from plugformer_serving.service import Service

NAMES = (
    "model",
    "prompt",
    "max_tokens",
    "n",
    "stop",
    "stream",
    "temperature",
    "top_p",
    "seed",
    "echo",
    "user",
)

DEFAULT_TOKENS = 16
"""Tokens of a completion, as OpenAI's."""

MOST_STOPS = 4


@dataclass(frozen=True)
class Wanted:
    """A request for completions, as it was read."""

    prompts: list[str]
    count: int
    most: int
    stops: list[str]
    stream: bool
    echo: bool
    manner: Manner
    drawn: bool


def read_wanted(service: Service, body: dict[str, Any]) -> Wanted:
    """Returns what a request asks for.

    Raises:
        Refused: It asks for something that there is not (400), or too much (413).
    """
    check_names(body, NAMES)
    if (model := body.get("model", service.name)) != service.name:
        raise Refused(404, f"there is no model {shown(model)}; this server has {shown(service.name)}")
    prompt = body.get("prompt")
    prompts: list[Any] = prompt if isinstance(prompt, list) else [prompt]
    if not prompts or not all(isinstance(each, str) for each in prompts):
        raise Refused(400, f"prompt is {shown(prompt)}, expected a text or a list of texts")
    count = read_count(body.get("n") or 1, "n", MOST_OUTPUTS)
    if len(prompts) * count > service.limits.items:
        raise Refused(
            413, f"{len(prompts) * count:,} choices are asked for, more than {service.limits.items:,}"
        )
    stop = body.get("stop") or []
    stops = [stop] if isinstance(stop, str) else stop
    sound = isinstance(stops, list) and all(isinstance(each, str) and each for each in stops)
    if not sound or len(stops) > MOST_STOPS:
        raise Refused(400, f"stop is {shown(stop)}, expected a text or up to {MOST_STOPS}")
    most = read_count(body.get("max_tokens") or DEFAULT_TOKENS, "max_tokens", service.limits.tokens)
    options, drawn = decoding_options(service, body)
    if service.trained.task.decoding.length is not None and "max_tokens" in body:
        raise Refused(400, "max_tokens: the task's decoding.length fixes the length of outputs; leave it out")
    return Wanted(
        prompts,
        count,
        most,
        stops,
        read_flag(body.get("stream") or False, "stream"),
        read_flag(body.get("echo") or False, "echo"),
        Manner(n_best=1 if drawn else count, most=most, options=options),
        drawn,
    )


def decoding_options(service: Service, asked: dict[str, Any]) -> tuple[tuple[tuple[str, float], ...], bool]:
    """Returns a request's options of the decoding, and whether this draws at random.

    Raises:
        Refused: The decoding has no such option, or the value is wrong (400).
    """
    block = service.trained.task.decoding
    decoding = service.trained.experiment.create(Kind.DECODING, block)
    known = inspect.signature(type(decoding)).parameters
    drawn = "seed" in known
    options: dict[str, float] = {}
    for name, least, most in (("temperature", 0.0, 100.0), ("top_p", 1e-9, 1.0)):
        if (value := asked.get(name)) is not None:
            number = read_number(value, name, least, most)
            if name in known:
                options[name] = max(number, 1e-6)  # 0 is its limit: always the most probable token
            elif number != (0.0 if name == "temperature" else 1.0):
                hint = "serve with --set decoding.name=sampling"
                raise Refused(400, f"{name} is {number:g}, but decoding {block.name!r} has none; {hint}")
    if (seed := asked.get("seed")) is not None:
        if type(seed) is not int or seed < 0:
            raise Refused(400, f"seed is {shown(seed)}, expected an integer from 0")
        if drawn:
            options["seed"] = seed
    return tuple(options.items()), drawn
