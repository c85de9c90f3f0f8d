"""What assembling a model from components costs, compared with the same model written by hand.

    PLUGFORMER_DATA=... python benchmarks/assembly.py

Both train on the same batches, in turn; processor time of one thread, as pairs, is steadier than the clock.
"""

import argparse
import statistics
import time

import torch
from systems import SYSTEMS
from training import Trainee, multi30k

ASSEMBLED, WRITTEN = "plugformer", "the same by hand"


def main() -> None:
    """Measures on both kinds of batches and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=14)
    count = parser.parse_args().pairs
    torch.set_num_threads(1)
    data = multi30k()
    for name, batches in {"shuffled": data.shuffled(), "of like lengths": data.by_tokens()}.items():
        trainees = {each: Trainee(SYSTEMS[each], data, batches) for each in (ASSEMBLED, WRITTEN)}
        for trainee in trainees.values():
            trainee.rate(2)
        ratios = []
        for number in range(count):
            seconds = {}
            for each in (ASSEMBLED, WRITTEN) if number % 2 else (WRITTEN, ASSEMBLED):
                started = time.process_time()
                trainees[each].rate(2)
                seconds[each] = time.process_time() - started
            ratios.append(seconds[ASSEMBLED] / seconds[WRITTEN])
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"batches {name}: assembled takes {middle:.3f} [{low:.3f}, {high:.3f}] of the time by hand")


if __name__ == "__main__":
    main()
