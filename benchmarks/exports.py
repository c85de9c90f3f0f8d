"""Which bundled tasks fit which export: trains each for a few updates, and exports it to every format.

    PLUGFORMER_DATA=... python benchmarks/exports.py [--to ctranslate2 ...] [--tasks dates ...] [--runs DIR]

Prints a Markdown table: of a verified export how many examples were compared, the largest difference of
scores, equal outputs, and the speed in comparison with the model; or the parts by which it is refused.
`transformers+code` is `--to transformers --code`. Runs and exports are in a temporary folder unless --runs
names one; runs there are used again.
"""

import argparse
import tempfile
from pathlib import Path

from plugformer import load, train
from plugformer.interfaces import Level
from plugformer.registry import Registry
from plugformer_export.command import create_target
from plugformer_export.engine import ExportError, UnsupportedExport
from plugformer_export.verification import verified

ENGINES = ["ctranslate2", "onnxruntime", "transformers", "transformers+code"]
STEPS = 30
GREEDY = "greedy"
LONGEST = 100

OTHERS = {
    **dict.fromkeys(("brackets", "copying", "dates", "names"), ("data.size=2000",)),
    "multi30k-retrieval": ("training.batch_size=32",),
}
"""Settings of tasks besides those of all."""


def trained_run(task: str, runs: Path, registry: Registry) -> Path:
    """Trains a task for a few updates, unless there is such a run."""
    run = runs / task
    if not (run / "evaluation.json").exists():
        given = [
            f"training.steps={STEPS}",
            "training.epochs=null",
            "training.callbacks=[]",
            "evaluation.limit=8",
        ]
        given += [f"training.evaluate_every={STEPS}", *OTHERS.get(task, ("training.batch_tokens=1024",))]
        train(task, out=run, registry=registry, overrides=given, notify=str)
    return run


def outcome(run: Path, name: str, out: Path, registry: Registry) -> str:
    """Returns a cell of the table."""
    trained = load(run, registry, device="cpu")
    decoding, settings = trained.task.decoding, []
    if trained.model.level is Level.NEXT_TOKEN and decoding.name != GREEDY:
        most = (
            decoding.max_length if isinstance(decoding.max_length, str) else min(decoding.max_length, LONGEST)
        )
        length = f"max_length: {most}"
        settings = [f"decoding={{name: {GREEDY}, {length}}}"]  # beams of so young models reach the limit
    elif decoding.constrained:
        settings = ["decoding.pattern=null", "decoding.length=null"]
    trained = load(run, registry, device="cpu", overrides=settings)
    changed = f", {'; '.join(settings)}" if settings else ""
    try:
        engine, _, code = name.partition("+")
        found = verified(trained, create_target(registry, engine, **({"code": True} if code else {})), out)
    except UnsupportedExport as error:
        return f"refused: {'; '.join(str(error).splitlines())}"
    except ExportError as error:
        return f"not verified: {' '.join(str(error).split())}"
    except ModuleNotFoundError as error:
        return f"not there: {error}"
    own, other = found.seconds
    figures = f"{found.examples}, {found.difference:.0e}, {found.equal} equal, {own / other:.2g} times"
    return f"verified ({figures}){changed}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    registry = Registry.discover()
    tasks = sorted(entry.name for entry in registry.entries("task"))
    parser.add_argument("--to", nargs="+", default=ENGINES)
    parser.add_argument("--tasks", nargs="+", default=tasks)
    parser.add_argument("--runs", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = arguments.runs or Path(folder)
        print("|".join(["", " task ", *(f" {name} " for name in arguments.to), ""]))
        print("|" + " --- |" * (1 + len(arguments.to)))
        for task in arguments.tasks:
            run = trained_run(task, runs, registry)
            cells = [outcome(run, name, Path(folder) / f"{task}-{name}", registry) for name in arguments.to]
            print("|".join(["", f" {task} ", *(f" {cell} " for cell in cells), ""]), flush=True)


if __name__ == "__main__":
    main()
