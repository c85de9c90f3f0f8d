"""What a server counts for Prometheus."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """What a server has done. Several threads may count.

    Attributes:
        registry: All of them, for `prometheus_client.generate_latest`.
        requests: Requests by path of the server, or "other", and status.
        seconds: Time from request to answer.
        batches: Texts that were answered together.
        waiting: Texts that wait or are being answered.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        one: Any = {"namespace": "plugformer", "registry": self.registry}
        self.requests = Counter("requests", "Requests by path and status.", ("path", "status"), **one)
        self.seconds = Histogram("request_seconds", "Time from request to answer.", buckets=SECONDS, **one)
        self.batches = Histogram("batch_texts", "Texts that were answered together.", buckets=TEXTS, **one)
        self.waiting = Gauge("queue_texts", "Texts that wait or are being answered.", **one)
