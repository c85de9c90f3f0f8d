"""One thread that answers: requests that arrive within a moment share a batch."""

import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from plugformer.errors import PlugformerError
from plugformer.interfaces import Prediction
from plugformer.runs import TrainedModel
from plugformer_serving.answering import Manner, Numbered, ServedModel
from plugformer_serving.limits import Limits, Refused
from plugformer_serving.metrics import Metrics

GATHERED = 0.010
"""Seconds in which requests are gathered into one batch."""

Answers = list[Prediction | PlugformerError]


@dataclass(eq=False)
class Job:
    """Texts of one request, which are answered in one manner.

    Attributes:
        texts: The texts.
        manner: How they are answered.
        result: Receives the answers; who cancels it does not want them any more.
        arrived: When it came, in seconds of the monotonic clock.
    """

    texts: Sequence[Numbered]
    manner: Manner
    result: "Future[Answers]"
    arrived: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class Call:
    """A computation of its own, such as an attention map.

    Attributes:
        function: What to do with the model.
        result: Receives what it returns.
    """

    function: Callable[[ServedModel], Any]
    result: "Future[Any]" = field(default_factory=Future)


class Worker:
    """Answers jobs in one thread.

    Args:
        trained: The model.
        limits: What it accepts.
        metrics: What it counts in.
    """

    def __init__(self, trained: TrainedModel, limits: Limits, metrics: Metrics) -> None:
        self._model = ServedModel(trained)
        self._limits = limits
        self._metrics = metrics
        self._queue: queue.SimpleQueue[Job | Call | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it answers."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Texts that wait or are being answered."""
        return self._waiting

    def answer(self, texts: Sequence[Numbered], manner: Manner) -> "Future[Answers]":
        """Returns the answers to come.

        Raises:
            Refused: The queue is full (503).
        """
        result: Future[Answers] = Future()

        def watched(text: Numbered) -> Numbered:
            return replace(text, enough=lambda: text.enough() or result.cancelled())

        job = Job([*map(watched, texts)], manner, result)
        self._accept(job, len(texts))
        return job.result

    def call(self, function: Callable[[ServedModel], Any]) -> "Future[Any]":
        """Returns the result to come of a computation with the model.

        Raises:
            Refused: The queue is full (503).
        """
        call = Call(function)
        self._accept(call, 1)
        return call.result

    def stop(self) -> None:
        """Answers what was accepted, and ends the thread."""
        self._queue.put(None)
        self._thread.join()

    def _accept(self, job: Job | Call, count: int) -> None:
        with self._lock:
            if self._waiting + count > self._limits.queue:
                reason = f"{self._waiting:,} texts wait; ask again later"
                raise Refused(503, reason, {"Retry-After": "1"})
            self._waiting += count
        job.result.add_done_callback(lambda _: self._done(count))
        self._queue.put(job)

    def _done(self, count: int) -> None:
        with self._lock:
            self._waiting -= count

    def _run(self) -> None:
        ended = False
        while not ended:
            first = self._queue.get()
            if first is None:
                return
            jobs: list[Job] = []
            ended = self._gather(first, jobs)
            if wanted := [job for job in jobs if not job.result.cancelled()]:
                self._answer(wanted)

    def _gather(self, first: Job | Call, jobs: list[Job]) -> bool:
        """Collects the jobs of one batch, and makes calls; returns whether the end was asked for."""
        following: Job | Call | None = first
        until = (first.arrived if isinstance(first, Job) else 0.0) + GATHERED
        count = 0
        while True:
            if following is None:
                return True
            if isinstance(following, Job):
                jobs.append(following)
                count += len(following.texts)
            else:
                self._make(following)
            if count >= self._limits.items:
                return False
            try:
                following = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return False

    def _make(self, call: Call) -> None:
        if call.result.set_running_or_notify_cancel():
            try:
                call.result.set_result(call.function(self._model))
            except BaseException as error:
                call.result.set_exception(error)

    def _answer(self, jobs: Sequence[Job]) -> None:
        """Answers jobs together; those that fail together, each alone."""
        groups: dict[Hashable, list[tuple[Job, int]]] = {}
        for job in jobs:
            for place, text in enumerate(job.texts):
                columns = None if isinstance(text.question, str) else frozenset(text.question)
                groups.setdefault((job.manner, columns), []).append((job, place))
        found: dict[Job, dict[int, Prediction | PlugformerError]] = {job: {} for job in jobs}
        try:
            for group in groups.values():
                texts = [job.texts[place] for job, place in group]
                self._metrics.batches.observe(len(texts))
                answers = self._model.answer_numbered(texts, group[0][0].manner)
                for (job, place), answer in zip(group, answers, strict=True):
                    found[job][place] = answer
        except BaseException as error:
            if len(jobs) == 1:
                _settle(jobs[0], error)
                return
            for job in jobs:
                if not job.result.cancelled():
                    self._answer([job])
            return
        for job, answers_by_place in found.items():
            _settle(job, [answers_by_place[place] for place in range(len(job.texts))])


def _settle(job: Job, outcome: Answers | BaseException) -> None:
    """Hands a job its answers or error, if it still wants them."""
    if not job.result.set_running_or_notify_cancel():
        return
    if isinstance(outcome, BaseException):
        job.result.set_exception(outcome)
    else:
        job.result.set_result(outcome)
