"""OpenAI's completions, of a model that continues texts.

https://platform.openai.com/docs/api-reference/completions
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from plugformer.errors import PlugformerError
from plugformer.interfaces import Tokenizer
from plugformer_serving.answering import Question, RequestedText
from plugformer_serving.bodies import Count
from plugformer_serving.service import Service, as_json, texts_in

DEFAULT_TOKENS = 16
"""Tokens of a completion, as OpenAI's."""

Tokens = Annotated[int, Field(ge=1)] | None
Temperature = Annotated[float, Field(ge=0, le=100)] | None
TopP = Annotated[float, Field(gt=0, le=1)] | None
Seed = Annotated[int, Field(ge=0)] | None
_Stop = Annotated[str, Field(min_length=1)]
Stop = _Stop | Annotated[list[_Stop], Field(max_length=4)] | None

Part = tuple[int, str, str | None]
"""The number of a choice, new text of it, and if this is its last why it has ended."""


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
        prompts: What is continued: texts, or values by column.
        count: Continuations of each prompt.
        max_tokens: Of each; `DEFAULT_TOKENS` if it is None.
        stop: A text that ends one, or several.
        asked: Options of the decoding; see `Service.options`.

    Raises:
        HTTPException: It asks for something that there is not (400), or too much (413).
    """

    def __init__(
        self,
        service: Service,
        prompts: Sequence[Question],
        count: int,
        max_tokens: int | None,
        stop: str | list[str] | None,
        asked: Mapping[str, float | None],
    ) -> None:
        if (number := len(prompts) * count) > service.limits.items:
            raise HTTPException(413, f"{number:,} choices are asked for, more than {service.limits.items:,}")
        self._service = service
        options, drawn = service.options(count, max_tokens, asked)
        self._max_tokens = max_tokens or DEFAULT_TOKENS
        self._options = replace(options, n_best=1 if drawn else count, max_tokens=self._max_tokens)
        self._hear: Callable[[int, str], None] = lambda _, __: None
        stops = [stop] if isinstance(stop, str) else stop or []
        tokenizer = service.trained.processor.target
        questions = [prompt for prompt in prompts for _ in range(count)]
        self.choices = [Choice("".join(texts_in(each)), tokenizer, stops) for each in questions]
        chosen = range(0, number, 1 if drawn else count)
        self._texts = [self._listening(index, questions[index]) for index in chosen]
        self._frame = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": service.name,
        }

    def _listening(self, index: int, question: Question) -> RequestedText:
        choice = self.choices[index]

        def on_token(token: int) -> None:
            if more := choice.append(token):
                self._hear(index, more)

        return RequestedText(question, index, choice.restart, on_token, lambda: choice.stopped)

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

    async def stream(self) -> AsyncGenerator[Part]:
        """Answers, and yields the parts of all choices as they are found.

        Raises:
            HTTPException: There is no answer; or a batch was computed again, with other outputs (500).
        """
        loop, parts = asyncio.get_running_loop(), asyncio.Queue[Part | None]()

        def hear(index: int, more: str) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(parts.put_nowait, (index, more, None))

        self._hear = hear  # in the thread of the model
        self._options = replace(self._options, streamed=True)
        answered = asyncio.ensure_future(self.answer())
        answered.add_done_callback(lambda _: parts.put_nowait(None))  # after all parts
        try:
            while (part := await parts.get()) is not None:
                yield part
            for index, (choice, more) in enumerate(zip(self.choices, answered.result(), strict=True)):
                if choice.sent != choice.text:
                    reason = f"choice {index} was computed again, and is not what was sent; ask again"
                    raise HTTPException(500, reason)
                yield index, more, self.reason(choice)
        finally:
            answered.cancel()

    def reason(self, choice: Choice) -> str:
        """Returns why a choice has ended: `length` if its limit or the model's was reached, or `stop`."""
        prompt = choice.tokenizer.encode([choice.prompt])[0]
        room = self._service.trained.task.model.max_length - 1 - len(prompt)
        return "length" if choice.length >= min(self._max_tokens, room) and not choice.stopped else "stop"

    def body(self, *parts: Part, **more: Any) -> dict[str, Any]:
        """Returns the body of an answer with these parts of choices."""
        choices = [
            {"index": index, "text": text, "logprobs": None, "finish_reason": reason}
            for index, text, reason in parts
        ]
        return {**self._frame, "choices": choices, **more}


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
    prompts = [prompt] if isinstance(prompt, str) else prompt
    asked = {"temperature": temperature, "top_p": top_p, "seed": seed}
    completion = Completion(service, prompts, n, max_tokens, stop, asked)
    if stream:
        return await _streamed(completion, echo=echo)
    await completion.answer()
    parts = [
        (index, f"{choice.prompt if echo else ''}{choice.text}", completion.reason(choice))
        for index, choice in enumerate(completion.choices)
    ]
    read = sum(map(len, completion.choices[0].tokenizer.encode(prompts)))
    written = sum(choice.length for choice in completion.choices)
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return completion.body(*parts, usage=usage)


async def _streamed(completion: Completion, *, echo: bool) -> Response:
    """Returns the parts of choices as events; an error before the first part is a status of its own."""
    parts = completion.stream()
    first = await anext(parts)

    def event(value: Mapping[str, Any]) -> bytes:
        return b"data: " + as_json(value) + b"\n\n"

    async def events() -> AsyncIterator[bytes]:
        try:
            for index, choice in enumerate(completion.choices if echo else ()):
                yield event(completion.body((index, choice.prompt, None)))
            yield event(completion.body(first))
            async for part in parts:
                yield event(completion.body(part))
            yield b"data: [DONE]\n\n"
        except HTTPException as error:
            yield event({"error": {"message": error.detail}})
        finally:
            await parts.aclose()

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})


async def list_models(service: Service) -> dict[str, Any]:
    """The model's name, as OpenAI lists models."""
    model = {"id": service.name, "object": "model", "created": 0, "owned_by": "plugformer"}
    return {"object": "list", "data": [model]}
