"""One thread that answers: requests that arrive while it computes, or return together, share a batch."""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from starlette.exceptions import HTTPException

from plugformer.errors import PlugformerError
from plugformer.interfaces import Prediction
from plugformer.runs import TrainedModel
from plugformer_serving.answering import AnswerOptions, RequestedText, ServedModel
from plugformer_serving.limits import ServerLimits
from plugformer_serving.metrics import Metrics

BATCH_WINDOW = 0.010
"""Seconds that a batch waits at most until as many requests have arrived as the last one had."""

Answers = list[Prediction | PlugformerError]


@dataclass(eq=False)
class Job:
    """Texts of one request, which have the same options.

    Attributes:
        texts: The texts.
        options: How they are answered.
        result: Receives the answers; it is cancelled when nobody waits for them any more.
    """

    texts: Sequence[RequestedText]
    options: AnswerOptions
    result: "Future[Answers]"


class Worker:
    """Answers jobs in one thread.

    Args:
        trained: The model.
        limits: What it accepts.
        metrics: What it counts in.

    Attributes:
        waiting: Texts that wait or are being answered.
    """

    def __init__(self, trained: TrainedModel, limits: ServerLimits, metrics: Metrics) -> None:
        self.waiting = 0
        self._model = ServedModel(trained)
        self._limits = limits
        self._metrics = metrics
        self._jobs: deque[Job] = deque()
        self._together = 1
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "model")

    def answer(self, texts: Sequence[RequestedText], options: AnswerOptions) -> "Future[Answers]":
        """Returns the answers to come.

        Raises:
            HTTPException: The queue is full (503).
        """
        result: Future[Answers] = Future()

        def watched(text: RequestedText) -> RequestedText:
            return replace(text, is_done=lambda: text.is_done() or result.cancelled())

        self._accept(len(texts))
        result.add_done_callback(lambda _: self._accept(-len(texts)))
        self._jobs.append(Job([*map(watched, texts)], options, result))
        self._thread.submit(self._answer_batch)
        return result

    def call(self, function: Callable[[ServedModel], Any]) -> "Future[Any]":
        """Returns the result to come of a computation with the model, such as an attention map.

        Raises:
            HTTPException: The queue is full (503).
        """
        self._accept(1)
        result = self._thread.submit(function, self._model)
        result.add_done_callback(lambda _: self._accept(-1))
        return result

    def stop(self) -> None:
        """Answers what was accepted, and ends the thread."""
        self._thread.shutdown()

    def _accept(self, count: int) -> None:
        with self._lock:
            if count > 0 and self.waiting + count > self._limits.queue:
                raise HTTPException(
                    503, f"{self.waiting:,} texts wait; ask again later", {"Retry-After": "1"}
                )
            self.waiting += count

    def _answer_batch(self) -> None:
        """Answers the jobs that have arrived, if an earlier batch has left any.

        Clients that had their answers together soon ask again, one after the other. A batch of the first
        alone would keep the others waiting; a client that is alone waits for nobody.
        """
        if not self._jobs:
            return
        latest = time.monotonic() + BATCH_WINDOW
        while len(self._jobs) < self._together and time.monotonic() < latest:
            time.sleep(BATCH_WINDOW / 10)
        jobs: list[Job] = []
        while self._jobs and sum(len(job.texts) for job in jobs) < self._limits.items:
            job = self._jobs.popleft()
            jobs += [job] * (not job.result.cancelled())
        self._together = len(jobs)
        self._answer(jobs)

    def _answer(self, jobs: Sequence[Job]) -> None:
        """Answers jobs together; those that fail together, one by one."""
        groups: dict[Hashable, list[tuple[Job, int]]] = {}
        for job in jobs:
            for place, text in enumerate(job.texts):
                columns = None if isinstance(text.question, str) else frozenset(text.question)
                groups.setdefault((job.options, columns), []).append((job, place))
        found: dict[Job, dict[int, Prediction | PlugformerError]] = {job: {} for job in jobs}
        try:
            for group in groups.values():
                texts = [job.texts[place] for job, place in group]
                self._metrics.batches.observe(len(texts))
                answers = self._model.answer_requested(texts, group[0][0].options)
                for (job, place), answer in zip(group, answers, strict=True):
                    found[job][place] = answer
        except BaseException as error:
            if len(jobs) > 1:
                for job in jobs:
                    self._answer([job])
            elif jobs[0].result.set_running_or_notify_cancel():
                jobs[0].result.set_exception(error)
            return
        for job, by_place in found.items():
            if job.result.set_running_or_notify_cancel():
                job.result.set_result([by_place[place] for place in range(len(job.texts))])
