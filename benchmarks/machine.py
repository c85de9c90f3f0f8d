"""What the machine does at best, and what a process has taken of its memory."""

import resource
import time
from pathlib import Path

import torch


def matrix_rate(width: int, seconds: float = 0.5) -> float:
    """Returns the rate in GFLOP/s of the matrix products of a model of some width."""
    a, b = torch.randn(1024, width), torch.randn(width, 4 * width)
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        for _ in range(20):
            a @ b
        count += 20
    return count * 2 * 1024 * width * 4 * width / (time.perf_counter() - started) / 1e9


def peak_memory() -> float:
    """Returns the most memory that this process has had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage also counts what the parent had when it started this process
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes, on macOS
