"""The process that serves: from a bound socket to the last answer."""

import gc
import os
import signal
import socket
from ipaddress import ip_address
from types import FrameType

import torch
import uvicorn
from starlette.types import ASGIApp

from plugformer.errors import ConfigurationError


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
    server = uvicorn.Server(config)

    def end(_: int, __: FrameType | None) -> None:
        server.should_exit = True

    before = signal.signal(signal.SIGTERM, end)  # uvicorn raises a signal again when it has ended
    gc.collect()
    gc.freeze()  # what is loaded stays; to search it for garbage now and then stops all requests for 150 ms
    try:
        server.run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)
