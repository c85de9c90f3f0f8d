"""One short answer from Python: the processor's time for it, with one thread.

python benchmarks/answer.py RUN [TEXT]
"""

import statistics
import sys
import time

import torch

from plugformer import load

WARM_UP, ANSWERS = 30, 200


def main(run: str, text: str = "March 5, 1996") -> None:
    """Prints the median, and the fastest tenth."""
    torch.set_num_threads(1)
    model = load(run, device="cpu")
    seconds = []
    for _ in range(WARM_UP + ANSWERS):
        started = time.process_time()
        model.predict(text)
        seconds.append(time.process_time() - started)
    measured = sorted(seconds[WARM_UP:])
    fast = measured[len(measured) // 10]
    print(f"median {statistics.median(measured) * 1000:.1f} ms, a tenth takes at most {fast * 1000:.1f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
