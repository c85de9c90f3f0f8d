"""Running a study: arms are made comparable, settings are chosen, and cells without a result are trained."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from plugformer.errors import InterruptedRunError, RunError
from plugformer.interfaces import Metric
from plugformer.registry import Registry
from plugformer.runs import read_json
from plugformer.training import Interruption
from plugformer_ablation.design.arms import TASK, Arm, by_context, by_stage, resolve_arms
from plugformer_ablation.design.blocks import TUNING_SEED
from plugformer_ablation.design.matching import matched
from plugformer_ablation.design.study import Study
from plugformer_ablation.judging.comparison import Verdict
from plugformer_ablation.judging.findings import find
from plugformer_ablation.judging.results import (
    CellResult,
    Record,
    StudyResults,
    metrics_of,
    read_looks,
    write,
)
from plugformer_ablation.running.accepting import accepted, to_train
from plugformer_ablation.running.cells import CELLS, Cell, ingredients, make_cells
from plugformer_ablation.running.claims import alone
from plugformer_ablation.running.costs import rotated, with_costs, with_equal_time
from plugformer_ablation.running.executors import Event, Executor
from plugformer_ablation.running.screening import screened
from plugformer_ablation.running.status import record_planned
from plugformer_ablation.running.tuning import Train, tuned
from plugformer_cli.progress import is_live


def run_study(
    study: Study,
    out: Path,
    registry: Registry,
    executor: Executor,
    console: Console,
    rows: Mapping[str, Any] | None = None,
    *,
    costs: bool = False,
    pairs: Callable[[Sequence[Arm]], list[Arm]] | None = None,
) -> StudyResults:
    """Runs a study in a folder to its end, or resumes it; see `ablate`.

    `rows` are examples in memory, by split, in place of the task's data. `pairs` makes other arms of the
    baselines, in place of the study's.
    """
    notify = partial(console.print, markup=False, highlight=False)
    arms = resolve_arms(study, registry, rows)
    with study_lock(out, shared=executor.shares):
        _claim(study, out)
        looks = read_looks(out)
        arms = _equal(matched(arms, study, notify), study, out, executor, notify)
        if pairs:
            arms = [arm for arm in arms if arm.baseline is None]
        if pairs and study.tunes_by_seed:
            arms = pairs(arms)
        results = _new_results(study, arms)
        preparation: dict[str, Record] = {}

        def train(cells: Sequence[Cell]) -> list[CellResult]:
            finished = train_cells(cells, out, results.metrics, executor, console)
            for cell, result in zip(cells, finished, strict=True):
                if cell.seed >= TUNING_SEED and not cell.tried:  # a trial has a record of its own
                    kept = {"arm": cell.arm, "seed": cell.seed, "seconds": result.seconds}
                    preparation[cell.name] = kept | {"failure": result.failure}
            return finished

        if study.tunes and not study.tunes_by_seed:
            arms, trials = tuned(arms, study, results, out, train, rows)
            results = replace(results, trials=tuple(trials))
        if study.screen:
            arms, screening = screened(arms, study.screen, results, out, train)
            results = replace(results, screening=tuple(screening))
        if pairs and not study.tunes_by_seed:
            arms = pairs(arms)
            results = _new_results(study, arms)
        arms, results = _compared(arms, study, replace(results, looks=looks), out, train, rows, notify)
        if costs:
            groups = (with_costs(each, out, executor.threads, notify) for each in by_context(arms))
            arms = [*chain.from_iterable(groups)]
        order = [arm.name for arm in arms]
        return replace(
            results,
            arms=tuple(arm.record() for arm in arms),
            cells=tuple(sorted(results.cells, key=lambda cell: (order.index(cell.arm), cell.seed))),
            made_of={**made_of(arms), **accepted(results.cells)},
            preparation=tuple(preparation.values()),
        )


def _equal(
    arms: list[Arm], study: Study, out: Path, executor: Executor, notify: Callable[[str], None]
) -> list[Arm]:
    """Returns arms whose trainings take as long as that of the baseline, if the study asks for that."""
    if study.match != "time":
        return arms
    with alone(out / "costs"):  # all workers use what one measures
        groups = by_context(arms)
        return [arm for each in groups for arm in with_equal_time(each, out, executor.threads, notify)]


def _compared(
    arms: Sequence[Arm],
    study: Study,
    results: StudyResults,
    out: Path,
    train: Train,
    rows: Mapping[str, Any] | None,
    notify: Callable[[str], None],
) -> tuple[list[Arm], StudyResults]:
    """Returns the arms, and results with the cells of all looks; seeds that choose for themselves do so."""
    seeds, open_, chosen = study.seed_list, list(arms), dict[str, Arm]()
    for begin, end in pairwise([0, *study.looks]):
        now, made = seeds[begin:end], open_
        if study.tunes_by_seed:
            made, trials = tuned(open_, study, results, out, train, rows, now, chosen)
            results = replace(results, trials=(*results.trials, *trials))
        chosen |= {arm.name: arm for arm in made}
        finished = [*results.cells]
        for stage in by_stage(made):
            cells = []
            for arm in stage:
                reasons = {seed: arm.choices.get(seed, arm).failure for seed in now}
                finished += [CellResult(arm.name, s, failure=why) for s, why in reasons.items() if why]
                cells += make_cells(arm, [s for s, why in reasons.items() if not why], out, chosen)
            finished += train(in_rounds(cells))
        records = tuple(arm.record() for arm in chosen.values())
        results = replace(results, arms=records, cells=tuple(finished))
        if end < study.looks[-1]:
            names = _undecided(made, results, end, notify)
            open_ = [arm for arm in open_ if arm.name in names]
    return list(chosen.values()), results


def made_of(arms: Sequence[Arm]) -> Record:
    """Returns the versions, the code, the data and the components that arms are made of."""
    own = [each for arm in arms for each in (arm.choices.values() or [arm])]
    made = [ingredients(arm.resolved, arm.hashes) for arm in own]
    data = {arm.values.get(TASK, ""): arm.hashes for arm in arms}
    components = {name: lock for each in made for name, lock in each["components"].items()}
    return {
        **{key: made[0][key] for key in ("versions", "code")},
        "components": dict(sorted(components.items())),
        "data": data.get("", data),
    }


def _undecided(
    arms: Sequence[Arm], results: StudyResults, seeds: int, notify: Callable[[str], None]
) -> set[str]:
    """Returns the arms that are trained with more seeds: those without a verdict, and what these need.

    An arm needs its baseline, and the arms of earlier tasks from which it starts.
    """
    found = find(results)
    verdicts = {each["arm"]: Verdict(each["verdict"]) for each in found.comparisons}
    waiting = {
        name for each in found.overall if not Verdict(each["verdict"]).decides for name in each["arms"]
    }
    open_ = {name for name, verdict in verdicts.items() if not verdict.decides} | waiting
    for name, verdict in verdicts.items():
        if name not in open_:
            notify(f"after {seeds} seeds: {name} is {verdict}, and needs no more")
    for arm in reversed(arms):  # what starts from an arm comes after it
        if arm.name in open_:
            open_ |= {name for name in (arm.baseline, arm.start) if name}
    return open_


def in_rounds(cells: Sequence[Cell]) -> list[Cell]:
    """Returns the cells of all arms, one seed after the other; which arm is first in a round rotates."""
    rounds: dict[int, list[Cell]] = {}
    for cell in cells:
        rounds.setdefault(cell.seed, []).append(cell)
    return [cell for number, each in enumerate(rounds.values()) for cell in rotated(each, number)]


def train_cells(
    cells: Sequence[Cell],
    out: Path,
    metrics: Mapping[str, Mapping[str, Metric]],
    executor: Executor,
    console: Console,
) -> list[CellResult]:
    """Returns the result of each cell, after those without one have been run."""
    executor.stages.append({cell.name: str(cell) for cell in cells})
    record_planned(out, executor.stages)
    notify = partial(console.print, highlight=False)
    waiting = to_train(cells, out, notify, accept=executor.accept_code)
    total, finished = len(cells), len(cells) - len(waiting)
    if waiting and finished:
        console.print(f"{finished} of {total} cells are finished already", highlight=False)
    failures: dict[str, str] = {}
    lost: dict[str, Cell] = {}
    interruption = Interruption()
    with interruption.watched(), StudyProgress(console, total, finished) as progress:
        for event in chain(executor.events(waiting), _again(executor, lost, failures, progress)):
            progress.show(event)
            if event is not None and event[1].failure is not None:
                failures[event[0].name] = event[1].failure
                if event[1].lost:
                    lost[event[0].name] = event[0]
            if interruption.requested is not None:
                executor.stop()
    remaining = [cell for cell in cells if not cell.finished and cell.name not in failures]
    if remaining:
        raise InterruptedRunError(
            f"stopped by {interruption.requested or 'a signal'}: {total - len(remaining)} of {total} cells "
            f"are done, and checkpoints of those that had begun are in {out / CELLS}; run the same "
            "command again to continue"
        )
    return [
        CellResult(cell.arm, cell.seed, directory=str(cell.folder), failure=failures[cell.name])
        if cell.name in failures
        else cell.result(metrics[cell.arm])
        for cell in cells
    ]


def _again(
    executor: Executor, lost: dict[str, Cell], failures: dict[str, str], progress: "StudyProgress"
) -> Iterator[Event]:
    """Trains cells that a machine or a process has lost, once more."""
    cells = list(lost.values())
    if cells and not executor.stopping:
        progress.begin_again(len(cells))
        for cell in cells:
            del failures[cell.name]
        yield from executor.events(cells)


@contextmanager
def study_lock(out: Path, *, shared: bool = False) -> Iterator[None]:
    """Makes the folder of a study and locks it, unless it is to be shared: workers claim single cells.

    Raises:
        RunError: A study is running there, or it cannot be written.
    """
    lock = FileLock(out / ".study.lock", timeout=0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with suppress(NotImplementedError):  # some network file systems have no locks
            if not shared:
                lock.acquire()
    except Timeout:
        raise RunError(f"{out}: a study is running there; wait for its end, or give another --out") from None
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror or error}; give another --out") from error
    try:
        yield
    finally:
        lock.release()


def _claim(study: Study, out: Path) -> None:
    """Records the study of a folder; it may have changed since it was recorded.

    Raises:
        RunError: The folder has the results of another study.
    """
    path = out / "study.json"
    if path.exists():
        before = Study.model_validate(read_json(path))
        if not _same(before, study):
            raise RunError(f"{out} has the results of another study, {before.title!r}: give another --out")
    write(path, json.dumps(study.model_dump(mode="json", by_alias=True), ensure_ascii=False, indent=2))


def _same(before: Study, now: Study) -> bool:
    """Whether two studies have the same task, and the same title or else a factor in common."""
    if before.study and now.study:
        return (before.task_name, before.study) == (now.task_name, now.study)
    names = [{factor.path for factor in study.factors.values()} or set(study.arms) for study in (before, now)]
    return before.task_name == now.task_name and bool(set.intersection(*names))


def _new_results(study: Study, arms: Sequence[Arm]) -> StudyResults:
    """Returns results without arms and cells: the study with all defaults, and its metrics."""
    firsts: dict[str, Arm] = {}
    for arm in arms:
        firsts.setdefault(arm.values.get(TASK, ""), arm)
    metrics = {task: metrics_of(arm.record()["task"], arm.resolved.registry) for task, arm in firsts.items()}

    def of_tasks(name: str) -> Any:
        known = {task: getattr(arm, name) for task, arm in firsts.items()}
        return known if study.tasks else known[""]

    record = {
        **study.model_dump(mode="json", by_alias=True),
        "study": study.title,
        "metric": of_tasks("metric"),
        "split": of_tasks("split"),
        "seeds": study.seed_list,
        "looks": study.looks,
    }
    return StudyResults(record, (), (), {}, {arm.name: metrics[arm.values.get(TASK, "")] for arm in arms})


class StudyProgress(Progress):
    """Shows finished and running cells and the time left: a live bar, or else plain lines."""

    def __init__(self, console: Console, total: int, finished: int) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False),  # names of arms may have brackets
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            speed_estimate_period=3600,
            disable=not is_live(console),
        )
        self._total, self._done = total, finished
        self._running: dict[str, float] = {}
        self._bar = self.add_task("cells", total=total, completed=finished)

    def begin_again(self, cells: int) -> None:
        """Shows that cells are trained again."""
        self._done -= cells
        self.console.print(f"{cells} lost cells are trained again", highlight=False)

    def show(self, event: Event) -> None:
        """Shows an event."""
        if event is None:
            return
        name, message = str(event[0]), event[1]
        if message.step is not None:
            self._running[name] = message.step / message.steps
        elif message.ended:
            self._running.pop(name, None)
            self._done += 1
            outcome = "done" if message.failure is None else f"failed: {message.failure}"
            if not message.elsewhere:
                line = f"[{self._done}/{self._total}] {name}: {outcome}"
                self.console.print(line, markup=False, highlight=False)
        running = ", ".join(f"{cell} {part:.0%}" for cell, part in self._running.items())
        self.update(self._bar, completed=self._done + sum(self._running.values()), description=running)
