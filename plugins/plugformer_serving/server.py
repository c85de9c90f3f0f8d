"""The process that serves: from a bound socket to the last answer."""

import asyncio
import logging
import signal
import socket
import time
from functools import partial
from ipaddress import ip_address
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from plugformer.errors import ConfigurationError


def bind(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0 takes one that is free.

    Raises:
        ConfigurationError: The address cannot be used.
    """
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            f"{host} port {port} cannot be served: {reason}; choose another --port or --host"
        ) from error


def address(listening: socket.socket) -> str:
    """Returns the URL of a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def only_local(listening: socket.socket) -> bool:
    """Returns whether a listening socket is reached from this machine alone."""
    return ip_address(listening.getsockname()[0]).is_loopback


def serve(app: ASGIApp, listening: socket.socket, *, seconds: float) -> None:
    """Answers requests until SIGTERM or Ctrl-C, and then those that it has accepted.

    Args:
        app: What answers.
        listening: Where requests come from.
        seconds: How long accepted requests may take, and a client to send a request's headers.

    Raises:
        KeyboardInterrupt: It was ended by Ctrl-C.
    """
    protocol: Any = partial(_Connection, seconds=seconds)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http=protocol,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(seconds) + 5,
    )
    server = uvicorn.Server(config)

    def end(_: int, __: FrameType | None) -> None:
        server.should_exit = True

    before = signal.signal(signal.SIGTERM, end)  # uvicorn raises a signal again when it has ended
    seldom, log = _Seldom(), logging.getLogger("asyncio")
    log.addFilter(seldom)
    try:
        server.run(sockets=[listening])
    finally:
        log.removeFilter(seldom)
        signal.signal(signal.SIGTERM, before)


class _Connection(H11Protocol):  # type: ignore[misc]  # mypy does not follow uvicorn
    """A connection that is closed if the headers of its next request do not arrive in time."""

    def __init__(self, *arguments: Any, seconds: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seconds = seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait(restart=False)
        super().connection_lost(exc)

    def _wait(self, *, restart: bool = True) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self._seconds, self._end) if restart else None

    def _end(self) -> None:
        if self.cycle is None or self.cycle.response_complete:  # no request is being answered
            self.transport.close()


class _Seldom(logging.Filter):
    """Lets a line about missing file descriptors through once a minute: asyncio logs thousands a second."""

    _next = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith("socket.accept() out of system resource"):
            return True
        is_due = time.monotonic() >= self._next
        if is_due:
            self._next = time.monotonic() + 60
            record.msg, record.args, record.exc_info = "too many connections: raise `ulimit -n`", (), None
        return is_due
