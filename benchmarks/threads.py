"""How fast `dates` trains under several settings of OpenMP, on a free machine and beside busy loops.

    python benchmarks/threads.py --rounds 5
    python benchmarks/threads.py --preload libiomp5.so  # with Intel's OpenMP in place of GNU's

A round trains once under each setting, in turn, so that what else the machine does meets all of them. A
training is a process of its own: OpenMP reads its variables when torch is imported. The median of the last
updates counts, the first 20 are left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SETTINGS: dict[str, dict[str, str]] = {
    "plugformer's own": {},
    "the runtime's own": {"GOMP_SPINCOUNT": "300000", "KMP_BLOCKTIME": "200"},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
    "one thread": {"OMP_NUM_THREADS": "1"},
    **{f"{count:,} rounds": {"GOMP_SPINCOUNT": str(count)} for count in (2_000, 20_000, 100_000)},
    **{f"{time} ms": {"KMP_BLOCKTIME": str(time)} for time in (0, 1, 10)},
}
"""Environment variables of each setting."""

TRAINING = (
    "data.size=5000",
    "training.log_every=10",
    "training.evaluate_every=1000",
    "evaluation.limit=8",
    "evaluation.samples=0",
)


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument(
        "--loops", type=int, default=os.cpu_count(), help="busy loops beside, one for each core"
    )
    parser.add_argument("--only", nargs="*", default=list(SETTINGS))
    parser.add_argument("--preload", default="", help="a library that replaces GNU's OpenMP")
    arguments = parser.parse_args()
    rates: dict[tuple[str, int], list[float]] = {}
    for _ in range(arguments.rounds):
        for loops in (0, arguments.loops):
            with _busy(loops):
                for name in arguments.only:
                    variables = SETTINGS[name] | {"LD_PRELOAD": arguments.preload}
                    rate = _rate(variables, arguments.updates)
                    rates.setdefault((name, loops), []).append(rate)
                    print(f"{name}, {loops} busy loops: {rate:,.0f} tokens/s", file=sys.stderr)
    print("| setting | alone, tokens/s | beside busy loops |\n| --- | --- | --- |")
    for name in arguments.only:
        print(f"| {name} | {_cell(rates[name, 0])} | {_cell(rates[name, arguments.loops])} |")


def _cell(rates: list[float]) -> str:
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    """Keeps that many cores busy."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def _rate(variables: dict[str, str], updates: int) -> float:
    """Returns the tokens/s of a training, the median over its later log lines."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        settings = [f"--set={setting}" for setting in (*TRAINING, f"training.steps={updates}")]
        command = [sys.executable, "-m", "plugformer", "train", "dates", *settings, "--out", str(run)]
        subprocess.run(command, env=os.environ | variables, check=True, capture_output=True)
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        rates = [line["tokens_per_second"] for line in lines if line["event"] == "training"]
        return statistics.median(rates[2:])


if __name__ == "__main__":
    main()
