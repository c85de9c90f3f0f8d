"""What stands before every request: only expected hosts and origins, counted and with safe headers."""

import time
from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

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
    """Refuses requests for other hosts, and those that pages of other origins have sent.

    A page of another site can make a browser send requests here, also by a name of its own that it points at
    127.0.0.1 (DNS rebinding). The first have an Origin that is not the Host, the second a Host that is not
    expected. No answer allows other origins to read it (CORS).

    Args:
        app: What answers.
        hosts: Names that the server is reached by; every name if there are none.
        metrics: Counts requests.
        paths: Paths whose requests are counted by name.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], metrics: Metrics, paths: Collection[str]
    ) -> None:
        self._app = app
        self._hosts = hosts
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

        try:
            if refusal := self._refusal(Headers(scope=scope)):
                status, reason = refusal
                await JSONResponse({"error": reason}, status)(scope, receive, watched)
            else:
                await self._app(scope, receive, watched)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.observe(time.monotonic() - began)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        """Returns status and reason if a request is for another host, or from another origin."""
        host = headers.get("host", "")
        if self._hosts and _name(host) not in self._hosts and not _is_loopback(_name(host), self._hosts):
            return 421, f"the host {host[:80]!r} is not served here; allow it with --allow-host"
        origin = headers.get("origin")
        if origin not in (None, f"http://{host}", f"https://{host}"):  # a proxy may end TLS
            return (
                403,
                f"requests of pages from {origin[:80]!r} are not answered, only of those from {host[:80]!r}",
            )
        return None


def _name(host: str) -> str:
    """Returns the host's name without its port, in small letters; empty if it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_loopback(name: str, hosts: Collection[str]) -> bool:
    """Returns whether a name is an address of this machine, if `localhost` is expected."""
    try:
        return "localhost" in hosts and ip_address(name).is_loopback
    except ValueError:
        return False
