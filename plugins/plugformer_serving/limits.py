"""What a server accepts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
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
