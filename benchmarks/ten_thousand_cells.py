"""Ten thousand cells by four workers in one folder, two of which are killed every minute and started again.

    python benchmarks/ten_thousand_cells.py --cells 10000 --out FOLDER

With `--made-up` nothing is trained: cells get made-up results, and the ordinary command alone is measured.

The cells are toys: what is measured is everything around a training. In the end every cell must have been
trained, none of the results that were there at any time may be lost or have changed, and the ordinary command
must write the report in less than 3 minutes and 1 GB without training anything.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

WORKERS, KILLED, EVERY = 4, 2, 60.0
ARMS = 20
SETTINGS = {
    "data.size": 60,
    "model.width": 16,
    "model.heads": 2,
    "model.layers": 1,
    "model.ffn_width": 32,
    "model.max_length": 40,
    "training.schedule": "constant",
    "training.steps": 2,
    "training.evaluate_every": 2,
    "training.log_every": 2,
    "training.batch_size": 8,
    "training.monitor": "loss",
    "evaluation.samples": 0,
    "decoding.max_length": 4,
}


def write_study(out: Path, cells: int) -> Path:
    """Writes a study of twenty learning rates."""
    rates = [round(0.001 + 0.0001 * number, 4) for number in range(ARMS)]
    study = {
        "study": "ten thousand cells",
        "task": "dates",
        "set": SETTINGS,
        "factors": {"rate": {"path": "training.optimizer.lr", "values": rates}},
        "seeds": cells // ARMS,
        "keep": "results",
    }
    out.mkdir(parents=True, exist_ok=True)
    file = out / "study.yaml"
    file.write_text(yaml.safe_dump(study, sort_keys=False))
    return file


def command(study: Path, out: Path, *options: str) -> list[str]:
    """Returns the command on the study with further options."""
    return [sys.executable, "-m", "plugformer", "ablate", str(study), "--out", str(out / "study"), *options]


def begin(study: Path, out: Path, number: int) -> subprocess.Popen[bytes]:
    """Starts a worker, which computes with one thread."""
    with (out / f"worker-{number}.log").open("ab") as log:
        return subprocess.Popen(
            command(study, out, "--worker"), stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )


def results(out: Path) -> dict[Path, int]:
    """Returns the results that are there, with the times at which they were written."""
    return {file: file.stat().st_mtime_ns for file in out.glob("study/cells/*/cell.json")}


def work(study: Path, out: Path, cells: int) -> int:
    """Lets workers train all cells; returns how many were killed."""
    workers = {number: begin(study, out, number) for number in range(WORKERS)}
    draw, kills, last, known = random.Random(0), 0, time.monotonic(), results(out)  # noqa: S311
    started, before = last, len(known)
    while workers:
        time.sleep(1)
        for number, process in list(workers.items()):
            if process.poll() is not None:
                if process.returncode:
                    raise SystemExit(f"worker {number} ended with {process.returncode}")
                del workers[number]
        if workers and time.monotonic() - last > EVERY:
            last, now = time.monotonic(), results(out)
            if not known.items() <= now.items():
                raise SystemExit("results were lost, or written twice")
            known = now
            for number in (
                draw.sample(sorted(workers), min(KILLED, len(workers))) if len(known) < cells else ()
            ):
                workers[number].send_signal(signal.SIGKILL)
                workers[number].wait()
                workers[number] = begin(study, out, number)
                kills += 1
            rate = (len(known) - before) / (time.monotonic() - started)
            print(f"{len(known)} of {cells} cells, {rate:.2f}/s, {kills} workers killed", flush=True)
    return kills


def make_up(study: Path, out: Path, examples: int = 100) -> None:
    """Writes results of all cells, with answers of a hundred test examples that are drawn by chance."""
    import numpy as np

    from plugformer.registry import Registry
    from plugformer_ablation.design.arms import resolve_arms
    from plugformer_ablation.design.matching import matched
    from plugformer_ablation.design.reading import read_study
    from plugformer_ablation.judging.results import CellResult
    from plugformer_ablation.running.cells import make_cells

    declared, draw = read_study(str(study)), np.random.default_rng(0)
    for arm in matched(resolve_arms(declared, Registry.discover()), declared, print):
        for cell in make_cells(arm, declared.seed_list, out / "study", {}):
            hits = (draw.random((examples, 1)) < 0.5).astype(float)
            curve = [{"step": 2, "loss": 1.0, "metrics": {"exact_match": 0.1}}]
            cell.folder.mkdir(exist_ok=True)
            CellResult(
                cell.arm,
                cell.seed,
                loss=1.0,
                metrics={"exact_match": float(hits.mean())},
                statistics={"exact_match": hits},
                curve=curve,
                seconds=1.0,
            ).save(cell.folder)


def main() -> None:
    """Runs the study and prints what was measured."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--made-up", action="store_true")
    given = parser.parse_args()
    study, started, kills = write_study(given.out, given.cells), time.monotonic(), 0
    if given.made_up:
        make_up(study, given.out)
    else:
        kills = work(study, given.out, given.cells)
    worked, before = time.monotonic() - started, results(given.out)
    begun = time.monotonic()
    with (given.out / "report.log").open("wb") as log:
        report = subprocess.Popen(command(study, given.out, "--no-costs"), stdout=log, stderr=log)
    _, status, usage = os.wait4(report.pid, 0)
    seconds, peak = time.monotonic() - begun, usage.ru_maxrss / 1e6
    print(f"workers: {worked:.0f} s, {kills} killed; cells with a result: {len(before)}")
    print(f"report: {seconds:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of the processor, {peak:.2f} GB")
    if (
        before != results(given.out)
        or len(before) != given.cells
        or os.waitstatus_to_exitcode(status) not in (0, 3)
    ):
        raise SystemExit("the report has trained cells, or cells have no result")


if __name__ == "__main__":
    main()
