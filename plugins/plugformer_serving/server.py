"""The process that serves: from a bound socket to the last answer."""

import gc
import os
import signal
import socket
import time
from collections.abc import Mapping
from ipaddress import ip_address
from types import FrameType, MappingProxyType
from typing import Any

import torch
import uvicorn
from starlette.types import ASGIApp

from plugformer.errors import ConfigurationError

HEAD_SECONDS = 10.0
"""Seconds in which the head of a connection's next request has to arrive."""

_FILES = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 512  # Windows; -1 if there is no limit
WAITING = min(1000, max(256, _FILES) // 2)
"""Connections without a request, at most: half of the files that a process may have open."""


class Server(uvicorn.Server):  # type: ignore[misc]  # mypy leaves uvicorn out
    """Closes connections whose next request does not arrive in time, and of too many the oldest."""

    _waiting: Mapping[tuple[Any, Any], float] = MappingProxyType({})
    """Since when each connection has waited after its last request, in seconds; the oldest first."""

    async def on_tick(self, counter: int) -> bool:
        """Is called ten times a second; returns whether the server ends."""
        now, last = time.monotonic(), {each: each.cycle for each in self.server_state.connections}
        waiting = [pair for pair in last.items() if pair[1] is None or pair[1].response_complete]
        since = {pair: self._waiting.get(pair, now) for pair in waiting}
        self._waiting = dict(sorted(since.items(), key=lambda item: item[1]))
        for place, ((connection, _), began) in enumerate(self._waiting.items()):
            if now - began > HEAD_SECONDS or place < len(since) - WAITING:
                connection.transport.close()
        return bool(await super().on_tick(counter))


def bind(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0 takes one that is free.

    Raises:
        ConfigurationError: The address cannot be used.
    """
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server((host, port), family=family, backlog=2048)
        # Connections inherit it. asyncio sets it only on sockets that were made with a protocol's number;
        # without it an answer's body waits until its head is acknowledged, which takes 40 ms on Linux.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
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


def leave_core() -> None:
    """Leaves one core to the connections, unless OMP_NUM_THREADS says how many threads compute.

    Threads that wait for each other at every operation are slower than fewer when one of them has no core.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() - 1))


def serve(app: ASGIApp, listening: socket.socket, *, seconds: float) -> None:
    """Answers requests until SIGTERM or Ctrl-C, and then those that it has accepted.

    Args:
        app: What answers.
        listening: Where requests come from.
        seconds: How long accepted requests may take.

    Raises:
        KeyboardInterrupt: It was ended by Ctrl-C.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        http="h11",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(seconds) + 5,
    )
    server = Server(config)

    def end(_: int, __: FrameType | None) -> None:
        server.should_exit = True

    before = signal.signal(signal.SIGTERM, end)  # uvicorn raises a signal again when it has ended
    gc.collect()
    gc.freeze()  # what is loaded stays; to search it for garbage now and then stops all requests for 150 ms
    try:
        server.run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)
