"""How far a study is: what its folder says of every planned cell. Nothing is locked, and no data are read."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from plugformer.errors import RunError
from plugformer.runs import read_json
from plugformer_ablation.judging.results import Record, read_if_there, write
from plugformer_ablation.running.cells import CELLS
from plugformer_ablation.running.claims import state_of

PLANNED = "planned.json"
"""The planned cells by name, for each stage of a study: trials of tuning, then the seeds of each look."""

SHOWN = ("host", "process", "since", "step", "steps", "silent_seconds", "failure")


def record_planned(out: Path, stages: Sequence[Mapping[str, str]]) -> None:
    """Records the stages that a process has planned so far, unless another has: all of them plan the same."""
    known = read_if_there(out / PLANNED) or []
    if known[: len(stages)] != stages:
        write(out / PLANNED, json.dumps(stages, ensure_ascii=False))


def study_status(out: Path) -> Record:
    """Returns how many cells are `planned`, `done` and `waiting`, and which `running`, `failed` or `lost`.

    Planned are those of all stages that have begun; see `state_of`.

    Raises:
        RunError: No study has begun in the folder.
    """
    if not (out / PLANNED).is_file():
        raise RunError(f"{out} has no {PLANNED}: no study has begun there; give its folder with --out")
    cells: dict[str, list[Record]] = {state: [] for state in ("done", "waiting", "running", "failed", "lost")}
    planned = {name: label for stage in read_json(out / PLANNED) for name, label in stage.items()}
    for name, label in planned.items():  # a trial that decides is planned twice
        state, record = state_of(out / CELLS / name)
        shown = {key: record[key] for key in SHOWN if key in record}
        cells[state].append({"cell": label, "name": name, **shown})
    counts = {state: len(cells.pop(state)) for state in ("done", "waiting")}
    return {
        "folder": str(out),
        "planned": sum(counts.values()) + sum(map(len, cells.values())),
        **counts,
        **cells,
    }


def status_text(status: Record) -> str:
    """Returns a status for a terminal: a line of numbers, then a line for each cell that is not waiting."""
    numbers = ", ".join(f"{len(status[state])} {state}" for state in ("running", "failed", "lost"))
    lines = [f"{status['folder']}: {status['done']} of {status['planned']} cells are done, {numbers}, "]
    lines[0] += f"{status['waiting']} waiting"
    for state in ("running", "lost"):
        for cell in status[state]:
            steps = cell.get("steps", 0)
            share = f"{cell['step'] / steps:.0%} of {steps:,} updates" if steps else "begun"
            who = f"{cell.get('host')}, process {cell.get('process')}, since {cell.get('since')}"
            heard = f"last heard of {cell.get('silent_seconds', 0):.0f} s ago"
            lines.append(f"  {state}: {cell['cell']}: {share}; {who}; {heard}")
    lines += [f"  failed: {cell['cell']}: {cell['failure']}" for cell in status["failed"]]
    return "\n".join(lines)
