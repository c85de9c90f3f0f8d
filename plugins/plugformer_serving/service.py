"""A model behind HTTP: what all paths share."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response

from plugformer.errors import ConfigurationError, DataError, LengthError, PlugformerError
from plugformer.interfaces import Level, Prediction, TaskType
from plugformer.registry import Kind
from plugformer.runs import TrainedModel
from plugformer_serving.answering import AnswerOptions, Question, RequestedText, ServedModel
from plugformer_serving.limits import ServerLimits
from plugformer_serving.metrics import Metrics
from plugformer_serving.worker import Worker

T = TypeVar("T")


@dataclass(eq=False)
class Service:
    """A trained model that answers requests.

    Attributes:
        trained: The model. Once the service exists, its worker alone computes with it.
        limits: What is accepted.
        metrics: What was done.
        worker: The thread that answers.
    """

    trained: TrainedModel
    limits: ServerLimits = field(default_factory=ServerLimits)
    metrics: Metrics = field(default_factory=Metrics)
    worker: Worker = field(init=False)

    def __post_init__(self) -> None:
        self.worker = Worker(self.trained, self.limits, self.metrics)
        self.metrics.waiting.set_function(lambda: self.worker.waiting)

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.trained.place.name

    @property
    def task_type(self) -> TaskType:
        """The task type of the model."""
        return self.trained.experiment.task_type

    @property
    def generates(self) -> bool:
        """Whether answers are texts that the model writes token by token."""
        return self.task_type.level is Level.NEXT_TOKEN

    @property
    def continues(self) -> bool:
        """Whether the model continues texts: it writes, and reads nothing else."""
        return self.generates and not self.task_type.inputs

    @property
    def finds(self) -> bool:
        """Whether the model has answers among texts that are given with `vectors` alone."""
        return type(self.task_type).rank is not TaskType.rank

    @cached_property
    def classes(self) -> list[str]:
        """Names of the classes of one label; none where answers are no labels."""
        return self.trained.processor.classes or []

    @property
    def has_probabilities(self) -> bool:
        """Whether answers can have the probabilities of all classes."""
        task_type, head = type(self.task_type), self.trained.model.head
        has_classes = task_type.answer_with_probabilities is not TaskType.answer_with_probabilities
        return bool(has_classes and head.probabilities and head.depends_on == "target")

    @property
    def has_attention(self) -> bool:
        """Whether an answer has attention maps: the model reads one text at most."""
        inputs = self.task_type.inputs
        return len(inputs) < 2 and not any(part.many for part in inputs) and not self.finds

    def options(
        self, count: int, max_tokens: int | None, asked: Mapping[str, float | None]
    ) -> tuple[AnswerOptions, bool]:
        """Returns how outputs are computed, and whether they are drawn at random.

        Args:
            count: Outputs of each text.
            max_tokens: Of an output; None for what the task says.
            asked: `temperature`, `top_p` and `seed`; None for what the task says.

        Raises:
            HTTPException: The decoding has no such option, or outputs cannot be as long (400).
        """
        if max_tokens is not None and max_tokens > self.limits.tokens:
            raise HTTPException(400, f"max_tokens is {max_tokens:,}; ask for {self.limits.tokens:,} at most")
        block = self.trained.task.decoding
        if max_tokens is not None and block.length is not None:
            raise HTTPException(
                400, "max_tokens: the task's decoding.length fixes the length of outputs; leave it out"
            )
        decoding = self.trained.experiment.create(Kind.DECODING, block)
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

    async def answer(
        self, questions: "Sequence[Question | RequestedText]", options: AnswerOptions
    ) -> list[Prediction | PlugformerError]:
        """Returns the answer to each question of a request, or its error, as `predict_each` does.

        Raises:
            HTTPException: The questions are too many or too long, the queue is full, or time is over.
        """
        texts = [
            question if isinstance(question, RequestedText) else RequestedText(question, number)
            for number, question in enumerate(questions)
        ]
        if not texts:
            return []
        await self.check_size([text.question for text in texts])
        return await self.result_of(self.worker.answer(texts, options))

    async def result_of(self, result: "Future[T]") -> T:
        """Returns a result of the worker; errors of the request are refusals.

        Raises:
            HTTPException: Time is over (504), or the request was wrong (400).
        """
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await asyncio.wrap_future(result)
        except TimeoutError:
            raise HTTPException(504, f"there was no answer within {self.limits.seconds:g} s") from None
        except (ConfigurationError, DataError, LengthError) as error:
            raise HTTPException(400, str(error)) from error

    async def check_size(self, questions: Sequence[Question]) -> None:
        """Refuses more questions, or more tokens of all together, than a request may have (413)."""
        if len(questions) > self.limits.items:
            raise HTTPException(
                413, f"there are {len(questions):,} items; send {self.limits.items:,} at most"
            )
        parts = texts_in(questions)
        if sum(len(part.encode()) for part in parts) <= self.limits.tokens:
            return  # a token has a byte at least

        def count(model: ServedModel) -> int:
            return sum(map(len, model.processor.source.encode(parts)))

        if (tokens := await self.result_of(self.worker.call(count))) > self.limits.tokens:
            reason = f"the texts have {tokens:,} tokens; send {self.limits.tokens:,} at most"
            raise HTTPException(413, reason)


def texts_in(question: Any) -> list[str]:
    """Returns the texts of a question, in any column; an integer is one, as in columns of text."""
    if isinstance(question, str | int):
        return [str(question)]
    inner = question.values() if isinstance(question, dict) else question
    return [text for part in inner for text in texts_in(part)] if isinstance(question, dict | list) else []


as_json = partial(to_json, inf_nan_mode="null")
"""Returns a value as JSON, which has neither infinity nor NaN."""


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns a response with a JSON value."""
    return Response(as_json(value), status, headers, media_type="application/json")
