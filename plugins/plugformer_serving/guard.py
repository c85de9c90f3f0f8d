"""What comes before every request: only pages of this server are answered, counted and with safe headers."""

import time
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plugformer_serving.metrics import Metrics

HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Refuses requests that pages of other origins have sent.

    A page of another site can make a browser send requests here; their Origin is not the Host. No answer
    allows other origins to read it (CORS), but that alone would not keep the model from computing.

    Args:
        app: What answers.
        metrics: Counts requests.
        paths: Paths whose requests are counted by name.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Collection[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        app = self._app
        if origin not in (None, f"http://{host}", f"https://{host}"):  # a proxy may end TLS
            reason = (
                f"requests of pages from {origin[:80]!r} are not answered, only of those from {host[:80]!r}"
            )
            app = JSONResponse({"error": reason}, 403)
        try:
            await app(scope, receive, watched)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.observe(time.monotonic() - began)
