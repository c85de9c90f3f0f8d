"""`plugformer serve` under load on this machine, and with nonsense: times, and whether answers are right.

python benchmarks/serving.py RUN [TEXTS]

TEXTS is a file with a text on each line; by default dates are written. 50 clients send 1,000 requests with
one text each, and every answer is compared with that of `predict`. Then 2,000 malformed requests are sent.
"""

import asyncio
import json
import random
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
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


async def load(url: str, texts: list[str]) -> tuple[list[float], list[dict]]:
    """Returns the seconds and the answer of each request."""
    seconds, answers = [0.0] * REQUESTS, [{}] * REQUESTS
    numbers = iter(range(REQUESTS))

    async def client() -> None:
        async with httpx.AsyncClient(timeout=60) as http:
            for number in numbers:
                began = time.perf_counter()
                response = await http.post(f"{url}/predict", json={"inputs": texts[number % len(texts)]})
                seconds[number] = time.perf_counter() - began
                response.raise_for_status()
                (answers[number],) = response.json()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return seconds, answers


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


def main(run: str, file: str | None = None) -> None:
    """Prints times, agreement and statuses."""
    texts = dates() if file is None else Path(file).read_text(encoding="utf-8").splitlines()[:REQUESTS]
    command = [sys.executable, "-m", "plugformer", "serve", run, "--port", "0", "--json", "--device", "cpu"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = json.loads(process.stdout.readline())["url"]
    asyncio.run(load(url, texts))  # warm-up
    began = time.perf_counter()
    seconds, answers = asyncio.run(load(url, texts))
    whole = time.perf_counter() - began
    trained = plugformer.load(run, device="cpu")
    expected = [record(*pair) for pair in zip(texts, trained.predict_each(texts), strict=True)]
    equal = sum(
        answer["output"] == expected[number % len(texts)]["output"] for number, answer in enumerate(answers)
    )
    ordered = sorted(seconds)
    print(f"{REQUESTS:,} requests of {CLIENTS} clients in {whole:.1f} s: {REQUESTS / whole:.0f} per second")
    print(
        f"mean {1000 * statistics.mean(seconds):.0f} ms, p50 {1000 * ordered[REQUESTS // 2]:.0f} ms, "
        f"p95 {1000 * ordered[REQUESTS * 95 // 100]:.0f} ms; {equal:,} answers equal predict's"
    )
    draw = random.Random(1)  # noqa: S311 (not for secrets)
    statuses = Counter(status(url, malformed(draw)) for _ in range(MALFORMED))
    print(f"{MALFORMED:,} malformed requests:", dict(sorted(statuses.items())))
    print("afterwards", httpx.get(f"{url}/health").json()["status"])
    process.terminate()
    print("exit status", process.wait(60))


if __name__ == "__main__":
    main(*sys.argv[1:])
