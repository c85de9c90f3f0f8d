"""OpenAI's completions, of a model that continues texts.

https://platform.openai.com/docs/api-reference/completions
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field
from starlette.responses import Response, StreamingResponse

from plugformer.errors import PlugformerError
from plugformer.interfaces import Prediction, Tokenizer
from plugformer_serving.answering import Numbered
from plugformer_serving.completion_request import Seed, Stop, Temperature, Tokens, TopP, Wanted, wanted
from plugformer_serving.limits import Refused
from plugformer_serving.schemas import Count, shown
from plugformer_serving.service import Service, as_json


@dataclass(eq=False)
class Choice:
    """One continuation of a prompt, as it grows.

    Attributes:
        prompt: What it continues.
        tokenizer: Of prompts and continuations.
        stops: Texts that end it; they are not part of it.
        tokens: The tokens that were heard since the search began.
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

    def begin(self) -> None:
        """Forgets what was heard: a search begins, perhaps once more."""
        self.tokens.clear()
        self.stopped = False

    def hear(self, token: int) -> str:
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
        wanted: What is asked for.
        tell: Receives the number of a choice and each new part of its text, in the thread of the model.
    """

    def __init__(self, service: Service, wanted: Wanted, tell: Callable[[int, str], None]) -> None:
        tokenizer = service.trained.processor.target
        self._wanted = wanted
        self._room = service.trained.task.model.max_length
        self._tell = tell
        self.choices = [
            Choice(prompt, tokenizer, wanted.stops) for prompt in wanted.prompts for _ in range(wanted.count)
        ]
        step = 1 if wanted.drawn else wanted.count
        self.texts = [self._listening(index) for index in range(0, len(self.choices), step)]
        self.frame = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": service.name,
        }

    def _listening(self, index: int) -> Numbered:
        choice = self.choices[index]

        def hear(token: int) -> None:
            if more := choice.hear(token):
                self._tell(index, more)

        return Numbered(choice.prompt, index, hear, lambda: choice.stopped, begin=choice.begin)

    def end(self, answers: Sequence[Prediction | PlugformerError]) -> list[str]:
        """Returns the last part of each choice.

        Raises:
            Refused: A prompt has no answer (400).
        """
        outputs: list[str] = []
        for answer in answers:
            if isinstance(answer, PlugformerError):
                raise Refused(400, str(answer))
            outputs += [str(each.output) for each in (answer, *answer.alternatives)]
        return [choice.end(text) for choice, text in zip(self.choices, outputs, strict=True)]

    def reason(self, choice: Choice) -> str:
        """Returns why a choice has ended: `length` if its limit or the model's was reached, or `stop`."""
        room = self._room - 1 - len(choice.tokenizer.encode([choice.prompt])[0])
        full = choice.length >= min(self._wanted.most, room)
        return "length" if full and not choice.stopped else "stop"

    def usage(self) -> dict[str, int]:
        """Returns the numbers of tokens that were read and written."""
        prompts = self.choices[0].tokenizer.encode(self._wanted.prompts)
        read, written = sum(map(len, prompts)), sum(choice.length for choice in self.choices)
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

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
        raise Refused(404, f"there is no model {shown(model)}; this server has {shown(service.name)}")
    prompts = [prompt] if isinstance(prompt, str) else prompt
    asked = wanted(service, prompts, n, max_tokens, stop, temperature=temperature, top_p=top_p, seed=seed)
    loop, parts = asyncio.get_running_loop(), asyncio.Queue[tuple[int, str] | None]()

    def tell(index: int, more: str) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(parts.put_nowait, (index, more))

    completion = Completion(service, asked, tell)
    if stream:
        answered = asyncio.ensure_future(service.answer_numbered(completion.texts, asked.manner))
        answered.add_done_callback(lambda _: parts.put_nowait(None))  # behind all parts
        return await _streamed(completion, answered, parts, echo=echo)
    completion.end(await service.answer_numbered(completion.texts, asked.manner))
    choices = [
        completion.part(index, f"{choice.prompt if echo else ''}{choice.text}", completion.reason(choice))
        for index, choice in enumerate(completion.choices)
    ]
    return {**completion.frame, "choices": choices, "usage": completion.usage()}


async def list_models(service: Service) -> dict[str, Any]:
    """The model's name, as OpenAI lists models."""
    model = {"id": service.name, "object": "model", "created": 0, "owned_by": "plugformer"}
    return {"object": "list", "data": [model]}


async def _streamed(
    completion: Completion,
    answered: "asyncio.Future[list[Prediction | PlugformerError]]",
    parts: "asyncio.Queue[tuple[int, str] | None]",
    *,
    echo: bool,
) -> Response:
    """Returns the parts of choices as they are found; an error before the first is a status of its own.

    Raises:
        Refused: A prompt has no answer.
    """
    first = await parts.get()
    ends = completion.end(answered.result()) if first is None else None

    def event(index: int, text: str, reason: str | None = None) -> bytes:
        choices = [completion.part(index, text, reason)]
        return b"data: " + as_json({**completion.frame, "choices": choices}) + b"\n\n"

    async def events() -> AsyncIterator[bytes]:
        try:
            for index, choice in enumerate(completion.choices if echo else ()):
                yield event(index, choice.prompt)
            following = first
            while following is not None:
                yield event(*following)
                following = await parts.get()
            for index, more in enumerate(completion.end(answered.result()) if ends is None else ends):
                choice = completion.choices[index]
                if choice.sent != choice.text:
                    reason = f"choice {index} was computed again, and is not what was sent; ask again"
                    raise Refused(500, reason)
                yield event(index, more, completion.reason(choice))
            yield b"data: [DONE]\n\n"
        except Refused as error:
            yield b"data: " + as_json({"error": {"message": error.reason}}) + b"\n\n"
        finally:
            answered.cancel()

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})
