"""The command: processes as users start them, and what they say."""

import json
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest

from plugformer_cli import record

LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""Processes in the background ignore Ctrl-C, and so do theirs."""
START = f"{LISTEN}from plugformer_cli.main import main; main()"


@pytest.fixture
def process(trained):
    """Returns a process that serves a tiny model, and its address."""
    started = []

    def start(name, *options):
        run = trained(name).directory
        words = [sys.executable, "-c", START, "serve", str(run), "--port", "0", "--json", *options]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process, json.loads(process.stdout.readline())["url"]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_server_answers_and_ends_without_losing_what_it_has_accepted(process, trained):
    running, url = process("continuation", "--max-items", "1500", "--max-tokens", "100000")
    asked = ["rain", "the red house"]
    expected = [
        record(*pair) for pair in zip(asked, trained("continuation").predict_each(asked), strict=True)
    ]
    found = httpx.post(f"{url}/predict", json={"inputs": asked}).json()
    assert [each["output"] for each in found] == [each["output"] for each in expected]
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as broken:  # which ends within its body
        head = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        broken.sendall(head + b"Content-Length: 99\r\n\r\n{")
    answers = []
    texts = [f"{'rain ' * 6}{number}" for number in range(1500)]

    def ask():
        answers.append(httpx.post(f"{url}/predict", json={"inputs": texts}, timeout=60))

    asking = threading.Thread(target=ask)
    asking.start()
    while "queue_texts 1500" not in httpx.get(f"{url}/metrics").text:
        assert asking.is_alive(), "answered before it could be seen; give it more texts"
    running.send_signal(signal.SIGTERM)
    asking.join()
    assert answers[0].status_code == 200
    assert [each["input"] for each in answers[0].json()] == texts
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out) == (0, "")
    assert err.count("\n") == 1 and f"at {url}; Ctrl-C ends" in err
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/health")


def test_ctrl_c_ends_as_other_commands_do(process):
    running, url = process("classes", "--device", "cpu", "--engine", "torch")
    assert httpx.get(f"{url}/health").json() == {"status": "ok"}
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=20)[1].endswith("Interrupted.\n")
    assert running.returncode == 130


def test_an_address_in_use_is_named(trained):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        words = [
            sys.executable,
            "-m",
            "plugformer",
            "serve",
            str(trained("classes").directory),
            "--port",
            port,
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"127.0.0.1 port {port} cannot be served" in done.stderr
