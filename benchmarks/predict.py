"""`plugformer predict` on many lines: lines per second, peak memory, and a command that is killed half-way.

python benchmarks/predict.py RUN TEXTS [LINES [COLUMN]]

The lines of TEXTS are repeated until there are LINES, by default 100,000, in a table with a number in front;
COLUMN is the name of the task's input, by default `text`. The command runs once without interruption. A
second one is killed with SIGKILL when half of the rows are complete, and continued.
"""

import csv
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from plugformer_cli.predict import PORTION


def peak_of(process: int) -> float:
    """Returns the most memory that a process has had, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return max((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), default=0.0)


def complete_rows(part: Path) -> int:
    """Returns the number of rows in an unfinished file, whose first line is none."""
    return max(0, part.read_bytes().count(b"\n") - 1)


def watched(command: list[str], part: Path, kill_at: int | None = None) -> tuple[float, float]:
    """Runs a command, perhaps until so many rows are complete; returns seconds and peak memory in MB."""
    started, peak = time.perf_counter(), 0.0
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            peak = max(peak, peak_of(process.pid))
            if kill_at is not None and complete_rows(part) >= kill_at:
                process.kill()
        except FileNotFoundError:
            pass
        time.sleep(0.05)
    if kill_at is None and process.returncode:
        sys.exit(f"{' '.join(command)} has failed")
    return time.perf_counter() - started, peak


def main(run: str, texts: str, count: str = "100000", column: str = "text") -> None:
    """Prints the measurements."""
    lines, size = Path(texts).read_text(encoding="utf-8").splitlines(), int(count)
    with tempfile.TemporaryDirectory() as folder:
        file, few, whole, resumed = (
            Path(folder, name) for name in ("in.csv", "few.csv", "whole.csv", "resumed.csv")
        )
        for path, rows in ((file, size), (few, 1)):
            with path.open("w", encoding="utf-8", newline="") as stream:
                csv.writer(stream).writerows([("id", column), *enumerate(islice(cycle(lines), rows))])
        command = [sys.executable, "-m", "plugformer", "predict", run, "--file"]
        start, base = watched([*command, str(few), "--out", f"{few}.csv"], few)
        seconds, peak = watched([*command, str(file), "--out", str(whole)], whole)
        speed = size / (seconds - start)
        print(f"{size:,} rows in {seconds:.1f} s, one row in {start:.1f} s: {speed:,.0f} rows/s")
        print(f"peak memory {peak:.0f} MB, for one row {base:.0f} MB; portions of {PORTION:,} rows")
        part, command = Path(f"{resumed}.part"), [*command, str(file), "--out", str(resumed)]
        watched(command, part, kill_at=size // 2)
        rows = complete_rows(part)
        watched([*command, "--resume"], part)
        with resumed.open(encoding="utf-8", newline="") as stream:
            complete = [int(row["id"]) for row in csv.DictReader(stream)] == list(range(size))
        same = whole.read_bytes() == resumed.read_bytes()
        print(
            f"killed with {rows:,} rows complete, then continued: all rows once, in order: {complete}; ",
            end="",
        )
        print(f"the same bytes as without interruption: {same}")


if __name__ == "__main__":
    main(*sys.argv[1:])
