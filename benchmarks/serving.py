"""`plugformer serve` under load on this machine, and with nonsense: times, and whether answers are right.

    python benchmarks/serving.py RUN [TEXTS]

TEXTS is a file with a text on each line; by default dates are written. 50 clients send 1,000 requests with
one text each, twice, of which the second time counts. Every answer is compared with that of `predict`.
The first use of an engine with a run converts it.
"""

import argparse
import json
import os
import random
import selectors
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

import plugformer
from plugformer_cli import record

CLIENTS, REQUESTS, MALFORMED = 50, 1000, 2000
HEAD = "{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"


def dates() -> list[str]:
    """Returns different dates."""
    days = [(year, month, day) for year in range(1950, 2030) for month in range(1, 13) for day in (3, 17)]
    return [f"{month}/{day}/{year}" for year, month, day in days][:REQUESTS]


class Client:
    """A client that sends its next request when it has the answer to the last, on one connection.

    It is a socket and a few lines, so that the clients, which share the processor with the server, cost it
    little: bodies are made before, and answers are parsed after the clock has stopped.
    """

    def __init__(self, address: tuple[str, int], requests: Iterator[tuple[int, bytes]]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests = requests

    def send(self) -> bool:
        """Sends the next request; False if there is none."""
        self.number, request = next(self._requests, (-1, b""))
        self.received, self.began = b"", time.perf_counter()
        self.socket.sendall(request)
        return self.number >= 0

    def receive(self) -> bytes | None:
        """Returns the answer with its head, if it is complete."""
        self.received += self.socket.recv(1 << 16)
        head, _, body = self.received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        return self.received if length and len(body) == int(length) else None


def load(url: str, texts: list[str]) -> tuple[list[float], list[dict]]:
    """Returns the seconds and the answer of each request."""
    where = urlsplit(url)
    head = f"POST /predict HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/json\r\n"
    bodies = [json.dumps({"inputs": texts[number % len(texts)]}).encode() for number in range(REQUESTS)]
    requests = [f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies]
    seconds, answers, waiting = [0.0] * REQUESTS, [b""] * REQUESTS, selectors.DefaultSelector()
    remaining = iter(enumerate(requests))
    for client in [Client((str(where.hostname), where.port or 80), remaining) for _ in range(CLIENTS)]:
        client.send()
        waiting.register(client.socket, selectors.EVENT_READ, client)
    while waiting.get_map():
        for key, _ in waiting.select():
            client = key.data
            if (answer := client.receive()) is None:
                continue
            seconds[client.number] = time.perf_counter() - client.began
            answers[client.number] = answer
            if not client.send():
                waiting.unregister(client.socket)
                client.socket.close()
    return seconds, [json.loads(answer.partition(b"\r\n\r\n")[2])[0] for answer in answers]


def processor_time(process: int) -> float:
    """Returns the seconds of the processor that a process has taken, as Linux counts them."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def malformed(draw: random.Random) -> bytes:
    """Returns what is no sound request."""
    method = draw.choice(["POST"] * 6 + ["GET", "PUT", "BREW", "delete"])
    path = draw.choice(["/predict"] * 5 + ["/", "/attention", "/nowhere", "/%ff", "/predict?x=\x01"])
    body = draw.choice(
        [
            draw.randbytes(draw.randrange(1, 300)),
            json.dumps({"inputs": draw.choice([None, 1, True, {}, [[]], [{}], [None]])}).encode(),
            json.dumps({"inputs": "x", "n_best": draw.choice([0, -1, 1.5, "2", 10**40, None])}).encode(),
            b'{"inputs": ' + b"[" * draw.randrange(30, 5000),
            b'{"inputs": %s}' % (b"9" * draw.randrange(20, 6000)),
            b'{"inputs": {"nothing": 1e999}}',
        ]
    )
    length = draw.choice([len(body)] * 6 + [len(body) + 9, max(0, len(body) - 3), -5, "x", 10**12])
    head = HEAD.format(method, path) + f"Content-Length: {length}\r\n\r\n"
    whole = head.encode("latin-1") + body
    return draw.choice([whole] * 8 + [whole[: draw.randrange(len(whole))], draw.randbytes(200)])


def status(url: str, data: bytes) -> str:
    """Returns the status of the answer to some bytes, or that the connection was closed."""
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=30) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(4096)
        except ConnectionError:
            return "closed"
    return answer.split(b" ", 2)[1].decode() if answer else "closed"


def measure(run: str, texts: list[str], expected: list[dict], engine: str) -> None:
    """Prints times and agreement of a server with an engine."""
    with serving(run, "--engine", engine) as (process, url):
        load(url, texts)  # warm-up
        began, taken, own = time.perf_counter(), processor_time(process.pid), time.process_time()
        seconds, answers = load(url, texts)
        whole = time.perf_counter() - began
        taken, own = processor_time(process.pid) - taken, time.process_time() - own
    ordered = sorted(seconds)
    equal = sum(a["output"] == expected[n % len(texts)]["output"] for n, a in enumerate(answers))
    print(
        f"{engine:12} p50 {1000 * ordered[REQUESTS // 2]:.0f} ms, "
        f"p95 {1000 * ordered[REQUESTS * 95 // 100]:.0f} ms, {REQUESTS / whole:.0f} requests/s, "
        f"{1000 * taken / REQUESTS:.2f} ms of the processor per request ({1000 * own / REQUESTS:.2f} of the "
        f"clients), {equal:,} of {REQUESTS:,} answers equal predict's"
    )


@contextmanager
def serving(run: str, *options: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """Yields a process that serves a run on a processor, and its URL."""
    command = [sys.executable, "-m", "plugformer", "serve", run, "--port", "0", "--json", "--device", "cpu"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


def main() -> None:
    """Prints times, agreement and statuses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run")
    parser.add_argument("texts", nargs="?", type=Path, help="a file with a text on each line")
    parser.add_argument("--engines", nargs="*", default=["torch", "ctranslate2", "onnxruntime"])
    parser.add_argument(
        "--malformed", action="store_true", help=f"then send {MALFORMED:,} malformed requests"
    )
    arguments = parser.parse_args()
    texts = arguments.texts.read_text(encoding="utf-8").splitlines() if arguments.texts else dates()
    trained = plugformer.load(arguments.run, device="cpu")
    expected = [record(*pair) for pair in zip(texts, trained.predict_each(texts), strict=True)]
    for engine in arguments.engines:
        measure(arguments.run, texts, expected, engine)
    if arguments.malformed:
        with serving(arguments.run) as (_, url):
            draw = random.Random(1)  # noqa: S311 (not for secrets)
            statuses = Counter(status(url, malformed(draw)) for _ in range(MALFORMED))
            print(f"{MALFORMED:,} malformed requests:", dict(sorted(statuses.items())))
            print("afterwards", httpx.get(f"{url}/health").json()["status"])


if __name__ == "__main__":
    main()
