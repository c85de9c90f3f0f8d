"""What a server accepts, and how a request is refused."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a server accepts.

    Attributes:
        body: Bytes of a request's body.
        items: Texts of a request, and of a batch.
        tokens: Tokens of a request's texts, and of a completion.
        seconds: From a request to its answer.
        queue: Texts that wait or are being answered.
    """

    body: int = 1 << 20
    items: int = 256
    tokens: int = 16384
    seconds: float = 30.0
    queue: int = 2048


class Refused(Exception):  # noqa: N818 (an answer to a client, no fault of the server)
    """A request that gets no answer: a status of HTTP, and the reason for people."""

    def __init__(self, status: int, reason: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers or {}
