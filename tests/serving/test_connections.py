"""Connections: answers leave at once, and those that send no request are closed."""

import asyncio
import contextlib
import gc
import socket

import pytest
import torch
import uvicorn
from starlette.responses import PlainTextResponse

from plugformer_serving import server
from plugformer_serving.server import Server, bind, serve

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = WHOLE[:25]
"""The beginning of a request's head."""


def test_an_answer_is_not_held_back_until_its_head_is_acknowledged():
    with (
        bind("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(("threads", "chosen", "left"), [(8, None, 7), (1, None, 1), (8, "8", None)])
def test_a_core_is_left_to_the_connections(monkeypatch, threads, chosen, left):
    found = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(torch, "set_num_threads", found.append)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if chosen:
        monkeypatch.setenv("OMP_NUM_THREADS", chosen)
    server.leave_core()
    assert found == [left] * (left is not None)


@contextlib.asynccontextmanager
async def running(app):
    """Yields a server and its port."""
    with bind("127.0.0.1", 0) as listening:
        ours = Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_keep_alive=5))
        task = asyncio.create_task(ours.serve(sockets=[listening]))
        try:
            yield ours, listening.getsockname()[1]
        finally:
            ours.should_exit = ours.force_exit = True
            await task


def test_a_head_that_does_not_arrive_ends_its_connection_and_a_request_does_not(monkeypatch):
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.0)

    async def attempt():
        closed = asyncio.Event()

        async def late(scope, receive, send):
            await closed.wait()  # the request takes longer than heads may
            await PlainTextResponse("late")(scope, receive, send)

        async with running(late) as (_, port):
            asking, answer = await asyncio.open_connection("127.0.0.1", port)
            answer.write(WHOLE)
            slow, write = await asyncio.open_connection("127.0.0.1", port)
            write.write(HALF)
            assert await slow.read() == b""
            closed.set()
            found = await asking.readuntil(b"late")
            answer.write(HALF)  # the next head of the same connection
            assert await asking.read() == b""
            for writer in (answer, write):
                writer.close()
        return found

    assert asyncio.run(asyncio.wait_for(attempt(), 60)).startswith(b"HTTP/1.1 200")


def test_of_too_many_connections_without_a_request_the_oldest_ends(monkeypatch):
    monkeypatch.setattr(server, "WAITING", 2)

    async def attempt():
        async with running(PlainTextResponse("found")) as (ours, port):
            connections = []
            for _ in range(3):
                read, write = await asyncio.open_connection("127.0.0.1", port)
                connections.append((read, write))
                write.write(WHOLE)
                assert (await read.readuntil(b"found")).startswith(b"HTTP/1.1 200")
                write.write(HALF)
                await ours.on_tick(1)
            assert await connections[0][0].read() == b""
            for read, write in connections[1:]:
                write.write(WHOLE.removeprefix(HALF))
                assert (await read.readuntil(b"found")).startswith(b"HTTP/1.1 200")
            for _, write in connections:
                write.close()

    asyncio.run(asyncio.wait_for(attempt(), 60))


def test_garbage_is_not_looked_for_in_what_was_loaded(monkeypatch):
    frozen = []
    monkeypatch.setattr(Server, "run", lambda *_, **__: frozen.append(gc.get_freeze_count()))
    with bind("127.0.0.1", 0) as listening:
        serve(PlainTextResponse("found"), listening, seconds=1)
    gc.unfreeze()
    assert frozen[0] > 10_000
