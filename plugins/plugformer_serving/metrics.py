"""Counts of a server, in the text format of Prometheus."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
    """How many values are at most as large as each of some bounds.

    Args:
        bounds: The bounds, in ascending order.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Counts a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        """Yields the lines of a histogram with this name."""
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """What a server has done. Several threads may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds = Histogram(SECONDS)
        self._batches = Histogram(TEXTS)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Counts a request to a path of the server, or to "other", and its duration."""
        with self._lock:
            self._requests[path, status] += 1
            self._seconds.add(seconds)

    def batch(self, texts: int) -> None:
        """Counts a batch of texts that were answered together."""
        with self._lock:
            self._batches.add(texts)

    def text(self, waiting: int) -> str:
        """Returns all counts.

        https://prometheus.io/docs/instrumenting/exposition_formats/

        Args:
            waiting: Texts that wait or are being answered.
        """
        with self._lock:
            requests = sorted(self._requests.items())
            lines = [
                *_heading("plugformer_requests_total", "counter", "Requests by path and status."),
                *(
                    f'plugformer_requests_total{{path="{path}",status="{status}"}} {count}'
                    for (path, status), count in requests
                ),
                *_heading("plugformer_request_seconds", "histogram", "Time from request to answer."),
                *self._seconds.lines("plugformer_request_seconds"),
                *_heading("plugformer_batch_texts", "histogram", "Texts that were answered together."),
                *self._batches.lines("plugformer_batch_texts"),
                *_heading("plugformer_queue_texts", "gauge", "Texts that wait or are being answered."),
                f"plugformer_queue_texts {waiting}",
            ]
        return "\n".join(lines) + "\n"


def _heading(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"
