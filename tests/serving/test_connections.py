"""Connections: answers leave at once, whatever the model computes."""

import gc
import socket

import pytest
import torch
import uvicorn
from starlette.responses import PlainTextResponse

from plugformer_serving import server
from plugformer_serving.server import bind, serve


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


def test_garbage_is_not_looked_for_in_what_was_loaded(monkeypatch):
    frozen = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: frozen.append(gc.get_freeze_count()))
    with bind("127.0.0.1", 0) as listening:
        serve(PlainTextResponse("found"), listening, seconds=1)
    gc.unfreeze()
    assert frozen[0] > 10_000
