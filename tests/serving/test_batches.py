"""Which requests share a batch, on a clock that only sleeping moves."""

import threading
from types import SimpleNamespace

import pytest

from plugformer_serving import worker
from plugformer_serving.answering import AnswerOptions, RequestedText


class Clock:
    """A clock that a batch sleeps by. `meanwhile` is what happens during the next sleep."""

    def __init__(self):
        self.now, self.sleeps = 0.0, 0
        self.meanwhile = lambda: None

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.sleeps += 1
        happen, self.meanwhile = self.meanwhile, lambda: None
        happen()


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=found.monotonic, sleep=found.sleep))
    return found


def test_a_batch_is_what_came_while_the_last_was_computed_and_waits_for_those_who_come_again(served, clock):
    service = served("classes", items=9).service
    sizes = []
    count = service.worker._model.answer_requested

    def counting(texts, options):
        sizes.append(len(texts))
        return count(texts, options)

    service.worker._model.answer_requested = counting

    def ask(number):
        return [service.worker.answer([RequestedText("rain", 0)], AnswerOptions()) for _ in range(number)]

    for _ in range(2):
        ask(1)[0].result()
    assert (sizes, clock.sleeps) == ([1, 1], 0), "who is alone waits for nobody"
    computing = threading.Event()
    service.worker.call(lambda _: computing.wait())
    several = ask(4)
    computing.set()
    [each.result() for each in several]
    assert (sizes[2:], clock.sleeps) == ([4], 0)
    asked = []
    clock.meanwhile = lambda: asked.extend(ask(3))
    ask(1)[0].result()
    [each.result() for each in asked]
    assert (sizes[3:], clock.sleeps) == ([4], 1)
    ask(1)[0].result()
    assert clock.now == pytest.approx(worker.BATCH_WINDOW + worker.BATCH_WINDOW / 10), "three never come"
    before = clock.sleeps
    ask(1)[0].result()
    assert (sizes[4:], clock.sleeps) == ([1, 1], before)
