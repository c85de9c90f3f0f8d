"""OpenAI's completions, of a model that continues texts.

https://platform.openai.com/docs/api-reference/completions
"""

import asyncio
import inspect
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from plugformer.errors import PlugformerError
from plugformer.interfaces import Tokenizer
from plugformer.registry import Kind
from plugformer_serving.answering import AnswerOptions, RequestedText
from plugformer_serving.bodies import Count
from plugformer_serving.service import Service, as_json

DEFAULT_TOKENS = 16
"""Tokens of a completion, as OpenAI's."""

Tokens = Annotated[int, Field(ge=1)] | None
Temperature = Annotated[float, Field(ge=0, le=100)] | None
TopP = Annotated[float, Field(gt=0, le=1)] | None
Seed = Annotated[int, Field(ge=0)] | None
_Stop = Annotated[str, Field(min_length=1)]
Stop = _Stop | Annotated[list[_Stop], Field(max_length=4)] | None


def answer_options(
    service: Service, count: int, max_tokens: int | None, asked: Mapping[str, float | None]
) -> tuple[AnswerOptions, bool]:
    """Returns how outputs are computed, and whether they are drawn at random.

    Args:
        service: The model.
        count: Outputs of each text.
        max_tokens: Of an output; None for what the task says.
        asked: `temperature`, `top_p` and `seed`; None for what the task says.

    Raises:
        HTTPException: The decoding has no such option, or outputs cannot be as long (400).
    """
    if max_tokens is not None and max_tokens > service.limits.tokens:
        raise HTTPException(400, f"max_tokens is {max_tokens:,}; ask for {service.limits.tokens:,} at most")
    block = service.trained.task.decoding
    if max_tokens is not None and block.length is not None:
        raise HTTPException(
            400, "max_tokens: the task's decoding.length fixes the length of outputs; leave it out"
        )
    decoding = service.trained.experiment.create(Kind.DECODING, block)
    known = inspect.signature(type(decoding)).parameters
    options: dict[str, float] = {}
    for name, usual in (("temperature", 0.0), ("top_p", 1.0), ("seed", asked["seed"])):
        if (value := asked[name]) is not None and name in known:
            options[name] = max(value, 1e-6) if name == "temperature" else value  # its limit: no chance
        elif value not in (None, usual):
            hint = "serve with --set decoding.name=sampling"
            raise HTTPException(400, f"{name} is {value:g}, but decoding {block.name!r} has none; {hint}")
    return AnswerOptions(
        n_best=count, max_tokens=max_tokens, decoding=tuple(options.items())
    ), "seed" in known


@dataclass(eq=False)
class Choice:
    """One continuation of a prompt, as it grows.

    Attributes:
        prompt: What it continues.
        tokenizer: Of prompts and continuations.
        stops: Texts that end it; they are not part of it.
        tokens: Its tokens since the search began.
        sent: What a stream has of the text.
        text: The whole text, when it has ended.
        stopped: Whether a stop was found.
    """

    prompt: str
    tokenizer: Tokenizer
    stops: Sequence[str]
    tokens: list[int] = field(default_factory=list)
    sent: str = ""
    text: str = ""
    stopped: bool = False

    def restart(self) -> None:
        """Forgets its tokens: a search begins, perhaps once more."""
        self.tokens.clear()
        self.stopped = False

    def append(self, token: int) -> str:
        """Appends a token; returns what is new of the text and cannot change any more."""
        if self.stopped:
            return ""
        self.tokens.append(token)
        whole = self._cut(self.tokenizer.decode([self.tokens])[0])
        return self._grown(whole if self.stopped else whole[: len(whole) - self._open(whole)])

    def end(self, text: str) -> str:
        """Returns what is new of the whole text."""
        self.text = self._cut(text)
        return self._grown(self.text)

    @property
    def length(self) -> int:
        """Number of tokens of the text."""
        return len(self.tokens or self.tokenizer.encode([self.text])[0])

    def _grown(self, text: str) -> str:
        """Returns what a text has beyond what was sent; nothing if it has less, or is another."""
        if not text.startswith(self.sent):
            return ""
        more, self.sent = text[len(self.sent) :], text
        return more

    def _cut(self, text: str) -> str:
        """Returns the text before the first stop."""
        ends = [place for stop in self.stops if (place := text.find(stop)) >= 0]
        self.stopped = bool(ends)
        return text[: min(ends)] if ends else text

    def _open(self, text: str) -> int:
        """Returns how many last characters may become a stop, or are a part of a character."""
        lengths = [size for stop in self.stops for size in range(1, len(stop)) if text.endswith(stop[:size])]
        return max([len(text) - len(text.rstrip("\ufffd")), *lengths])


class Completion:
    """The choices of a request.

    Args:
        service: The model.
        prompts: What is continued.
        count: Continuations of each prompt.
        max_tokens: Of each; `DEFAULT_TOKENS` if it is None.
        stop: A text that ends one, or several.
        asked: Options of the decoding; see `answer_options`.
        tell: Receives the number of a choice and each new part of its text, in the thread of the model.

    Raises:
        HTTPException: It asks for something that there is not (400), or too much (413).
    """

    def __init__(
        self,
        service: Service,
        prompts: Sequence[str],
        count: int,
        max_tokens: int | None,
        stop: str | list[str] | None,
        asked: Mapping[str, float | None],
        tell: Callable[[int, str], None] = lambda _, __: None,
    ) -> None:
        if (number := len(prompts) * count) > service.limits.items:
            raise HTTPException(413, f"{number:,} choices are asked for, more than {service.limits.items:,}")
        self._service = service
        options, drawn = answer_options(service, count, max_tokens, asked)
        self._max_tokens = max_tokens or DEFAULT_TOKENS
        self._options = replace(options, n_best=1 if drawn else count, max_tokens=self._max_tokens)
        self._tell = tell
        stops = [stop] if isinstance(stop, str) else stop or []
        tokenizer = service.trained.processor.target
        self.choices = [Choice(prompt, tokenizer, stops) for prompt in prompts for _ in range(count)]
        self._texts = [self._listening(index) for index in range(0, number, 1 if drawn else count)]
        self.frame = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": service.name,
        }

    def _listening(self, index: int) -> RequestedText:
        choice = self.choices[index]

        def on_token(token: int) -> None:
            if more := choice.append(token):
                self._tell(index, more)

        return RequestedText(choice.prompt, index, choice.restart, on_token, lambda: choice.stopped)

    async def answer(self) -> list[str]:
        """Answers, and returns the last part of each choice.

        Raises:
            HTTPException: A prompt has no answer (400), or the service does not answer.
        """
        outputs: list[str] = []
        for answer in await self._service.answer(self._texts, self._options):
            if isinstance(answer, PlugformerError):
                raise HTTPException(400, str(answer))
            outputs += [str(each.output) for each in (answer, *answer.alternatives)]
        return [choice.end(text) for choice, text in zip(self.choices, outputs, strict=True)]

    def reason(self, choice: Choice) -> str:
        """Returns why a choice has ended: `length` if its limit or the model's was reached, or `stop`."""
        room = (
            self._service.trained.task.model.max_length - 1 - len(choice.tokenizer.encode([choice.prompt])[0])
        )
        return "length" if choice.length >= min(self._max_tokens, room) and not choice.stopped else "stop"

    def part(self, index: int, text: str, reason: str | None = None) -> dict[str, Any]:
        """Returns a choice of an answer."""
        return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}


async def complete(
    service: Service,
    *,
    prompt: str | Annotated[list[str], Field(min_length=1)],
    model: str | None = None,
    max_tokens: Tokens = None,
    n: Count = 1,
    stop: Stop = None,
    stream: bool = False,
    echo: bool = False,
    temperature: Temperature = None,
    top_p: TopP = None,
    seed: Seed = None,
    user: Any = None,
) -> Any:
    """OpenAI's completions: continues one or several prompts."""
    if model not in (None, service.name):
        raise HTTPException(404, f"there is no model {model!r}; this server has {service.name!r}")
    loop, parts = asyncio.get_running_loop(), asyncio.Queue[tuple[int, str] | None]()

    def tell(index: int, more: str) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(parts.put_nowait, (index, more))

    prompts, asked = (
        [prompt] if isinstance(prompt, str) else prompt,
        {"temperature": temperature, "top_p": top_p, "seed": seed},
    )
    completion = Completion(service, prompts, n, max_tokens, stop, asked, tell)
    if stream:
        answered = asyncio.ensure_future(completion.answer())
        answered.add_done_callback(lambda _: parts.put_nowait(None))  # after all parts
        return await _streamed(completion, answered, parts, echo=echo)
    await completion.answer()
    choices = [
        completion.part(index, f"{choice.prompt if echo else ''}{choice.text}", completion.reason(choice))
        for index, choice in enumerate(completion.choices)
    ]
    count = sum(map(len, completion.choices[0].tokenizer.encode(prompts)))
    written = sum(choice.length for choice in completion.choices)
    usage = {"prompt_tokens": count, "completion_tokens": written, "total_tokens": count + written}
    return {**completion.frame, "choices": choices, "usage": usage}


async def list_models(service: Service) -> dict[str, Any]:
    """The model's name, as OpenAI lists models."""
    model = {"id": service.name, "object": "model", "created": 0, "owned_by": "plugformer"}
    return {"object": "list", "data": [model]}


async def _streamed(
    completion: Completion,
    answered: "asyncio.Future[list[str]]",
    parts: "asyncio.Queue[tuple[int, str] | None]",
    *,
    echo: bool,
) -> Response:
    """Returns the parts of choices as they are found; an error before the first is a status of its own.

    Raises:
        HTTPException: A prompt has no answer.
    """
    following = await parts.get()
    if following is None:
        answered.result()

    def event(value: Mapping[str, Any]) -> bytes:
        return b"data: " + as_json(value) + b"\n\n"

    def chosen(index: int, text: str, reason: str | None = None) -> bytes:
        return event({**completion.frame, "choices": [completion.part(index, text, reason)]})

    async def events() -> AsyncIterator[bytes]:
        part = following
        try:
            for index, choice in enumerate(completion.choices if echo else ()):
                yield chosen(index, choice.prompt)
            while part is not None:
                yield chosen(*part)
                part = await parts.get()
            for index, more in enumerate(answered.result()):
                choice = completion.choices[index]
                if choice.sent != choice.text:
                    reason = f"choice {index} was computed again, and is not what was sent; ask again"
                    raise HTTPException(500, reason)
                yield chosen(index, more, completion.reason(choice))
            yield b"data: [DONE]\n\n"
        except HTTPException as error:
            yield event({"error": {"message": error.detail}})
        finally:
            answered.cancel()

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})
