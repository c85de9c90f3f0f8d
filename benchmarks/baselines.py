"""What the baselines of tasks score, without a model.

    PLUGFORMER_DATA=... python benchmarks/baselines.py sick-entailment multi30k-retrieval

They are those that `plugformer train` prints beside the model's scores, measured in the same way, on the
test splits or else on validation. A row for each score: task, split, metric, baseline, value and interval,
training examples, seconds of processor time on all splits together.
"""

import argparse
import time
from pathlib import Path

from plugformer.configuration import resolve
from plugformer.data.preparation import prepare
from plugformer.evaluation import Report
from plugformer.evaluation.baselines import measure_baselines
from plugformer.experiment import Experiment


def main():
    """Prints the scores of each task's baselines."""
    parser = argparse.ArgumentParser(
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__
    )
    parser.add_argument("tasks", nargs="+", metavar="TASK")
    parser.add_argument("--split", action="append", help="by default the test splits, or else validation")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    for name in arguments.tasks:
        experiment = Experiment.from_resolved(resolve(name, arguments.settings))
        data = prepare(experiment)
        tests = sorted(split for split in data.splits if split.startswith("test"))
        reports = {
            split: Report(Path(), split, {}, len(data.splits[split]), 0.0, encoded=data.splits[split])
            for split in arguments.split or tests or ["validation"]
        }
        for block in experiment.baselines:
            chosen = experiment.task.evaluation.model_copy(update={"baselines": [block]})
            alone = experiment.task.model_copy(update={"evaluation": chosen})
            started = time.process_time()
            found = measure_baselines(experiment.with_task(alone), data, reports, print)
            seconds = time.process_time() - started
            for split, scores in found.items():
                for baseline, each in scores.items():
                    for metric, score in each.metrics.items():
                        interval = f"[{score['low']:.4f}, {score['high']:.4f}]"
                        cells = (name, split, metric, baseline, f"{score['value']:.4f}", interval)
                        print(
                            "| " + " | ".join([*cells, f"{each.examples:,}", f"{seconds:.1f} s"]) + " |",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
