"""How long the command line takes to answer, beside an empty Python and beside importing torch.

    python benchmarks/startup.py --repetitions 20 --json startup.json

Every repetition runs each command once, so that what else the machine does falls on all of them alike.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from many_plugins import COUNT, install_plugins

_PLUGFORMER = [sys.executable, "-c", "from plugformer_cli.main import main; main()"]
_MANY = f", {COUNT} plugins"
COMMANDS = {
    "plugformer --help": [*_PLUGFORMER, "--help"],
    "plugformer list": [*_PLUGFORMER, "list"],
    f"plugformer --help{_MANY}": [*_PLUGFORMER, "--help"],
    f"plugformer list{_MANY}": [*_PLUGFORMER, "list"],
    "python -c pass": [sys.executable, "-c", "pass"],
    "python -c 'import typer'": [sys.executable, "-c", "import typer"],
    "python -c 'import torch'": [sys.executable, "-c", "import torch"],
}

BARS = {name: 0.5 if name.endswith(_MANY) else 0.4 for name in COMMANDS if name.startswith("plugformer")}
"""Seconds that our own commands may take."""


def main() -> None:
    """Measures, prints the table, and fails if a command of ours misses the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as site:
        install_plugins(Path(site))
        table = measured(arguments.repetitions, Path(site))
    print(f"{'command':30}  median s   min s   max s   bar s  ({arguments.repetitions} repetitions)")
    for name, row in table.items():
        print(
            f"{name:30}  {row['median']:8.3f}  {row['min']:6.3f}  {row['max']:6.3f}  {BARS.get(name, ''):>6}"
        )
    if arguments.json:
        record = {"bars": BARS, "repetitions": arguments.repetitions, "seconds": table}
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if slow := [name for name, bar in BARS.items() if table[name]["median"] > bar]:
        sys.exit(f"slower than the bar: {', '.join(slow)}")


def measured(repetitions: int, site: Path) -> dict[str, dict[str, float]]:
    """Returns each command's times; those that have many plugins find them in the folder `site`."""
    paths = {name: str(site) if name.endswith(_MANY) else "" for name in COMMANDS}
    for name, command in COMMANDS.items():
        seconds_of(command, paths[name])  # fills the file cache and writes byte code
    rounds = [
        {name: seconds_of(command, paths[name]) for name, command in COMMANDS.items()}
        for _ in range(repetitions)
    ]
    return {name: summary([each[name] for each in rounds]) for name in COMMANDS}


def seconds_of(command: list[str], path: str = "") -> float:
    """Returns the wall time of a command, from the start of its process to its end.

    Args:
        command: What to run.
        path: A folder with further distributions.
    """
    environment = {**os.environ, "PYTHONPATH": path}
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started


def summary(seconds: list[float]) -> dict[str, float]:
    """Returns median, minimum and maximum."""
    return {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}


if __name__ == "__main__":
    main()
