"""A whole study: arms made comparable, settings chosen, and cells run wherever they are not finished."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.console import Console

from plugformer.configuration import short_name
from plugformer.errors import InterruptedRunError, RunError
from plugformer.registry import Kind, Registry
from plugformer.runs import read_json, remove_leftovers, write_json
from plugformer.training import Interruption
from plugformer_ablation.arms import Arm, primary_metric, resolve_arms
from plugformer_ablation.cells import CELLS, Cell, ingredients, make_cells, report_invalidated_cells
from plugformer_ablation.executor import Executor
from plugformer_ablation.matching import deciding_split, matched, with_differences
from plugformer_ablation.progress import StudyProgress
from plugformer_ablation.results import CellResult, StudyResults
from plugformer_ablation.speed import with_equal_time
from plugformer_ablation.study import TUNING_SEED, Study


@dataclass(frozen=True)
class StudyRunner:
    """Runs studies.

    Attributes:
        executor: Runs cells.
        registry: What is installed.
        console: Where progress is shown.
    """

    executor: Executor
    registry: Registry
    console: Console

    def run(self, study: Study, out: Path) -> StudyResults:
        """Runs a study to its end, or goes on with it; finished cells are not run again.

        Args:
            study: The study.
            out: Its folder.

        Raises:
            ConfigurationError: An arm cannot be; nothing has been run.
            DataError: The data cannot be read; nothing has been run.
            RunError: The folder cannot be written, is another study's, or a study is running there already.
            InterruptedRunError: Somebody asked to stop; everything so far is saved.
        """
        arms = resolve_arms(study, self.registry)
        for notice in dict.fromkeys(notice for arm in arms for notice in arm.resolved.notices):
            self._say(notice)
        with study_lock(out):
            _claim(study, out)
            arms = matched(arms, study, self._say)
            if study.match == "time":
                arms = with_equal_time(arms, out, self.executor.threads, self._say)
            results = _begun(study, arms[0])
            arms = with_differences(self._tuned(arms, results, out), study)
            cells: list[Cell] = []
            untuned: list[CellResult] = []
            for arm in arms:
                if arm.failure is None:
                    cells += make_cells(arm, study.seed_list, out, results.study["split"])
                else:
                    untuned += (CellResult(arm.name, seed, failure=arm.failure) for seed in study.seed_list)
            return replace(
                results,
                arms=tuple(arm.record() for arm in arms),
                cells=(*self._finished(cells, out).values(), *untuned),
                made_of=_made_of(arms),
            )

    def _tuned(self, arms: Sequence[Arm], results: StudyResults, out: Path) -> list[Arm]:
        """Returns each arm with the settings that were best; where all trials failed, it says so."""
        if not arms[0].tuned:
            return list(arms)
        cells = [make_cells(arm, [TUNING_SEED], out, "validation", tried=arm.tried)[0] for arm in arms]
        found = self._finished(cells, out)
        trials = [(arm, found[cell.name]) for arm, cell in zip(arms, cells, strict=True)]
        return [_best(list(each), results) for _, each in groupby(trials, key=lambda trial: trial[0].name)]

    def _finished(self, cells: Sequence[Cell], out: Path) -> dict[str, CellResult]:
        """Returns the result of each cell by its name, once those that have none have been run."""
        found = {cell.name: result for cell in cells if (result := self._kept(cell)) is not None}
        report_invalidated_cells(cells, out, self._say)
        waiting = [cell for cell in cells if cell.name not in found]
        if waiting and found:
            self._say(f"{len(found)} of {len(cells)} cells are finished already")
        failures = self._run(waiting, len(cells), out) if waiting else {}
        for cell in waiting:
            failure = failures.get(cell.name)
            failed = CellResult(cell.arm, cell.seed, directory=str(cell.folder), failure=failure)
            found[cell.name] = failed if failure is not None else cell.result()
        return {cell.name: found[cell.name] for cell in cells}

    def _kept(self, cell: Cell) -> CellResult | None:
        """Returns the result of a cell; None if it has none, or one that cannot be read."""
        if not cell.finished:
            return None
        try:
            return cell.result()
        except RunError as error:
            self._say(f"{cell} is run again: {error}")
            cell.discard()
            return None

    def _run(self, cells: Sequence[Cell], total: int, out: Path) -> dict[str, str]:
        """Runs cells; returns why some failed, by their names."""
        failures: dict[str, str] = {}
        interruption, progress = Interruption(), StudyProgress(self.console, total, total - len(cells))
        with interruption.watched(), progress:
            for event in self.executor.events(cells):
                progress.show(event)
                if event is not None and event[1].failure is not None:
                    failures[event[0].name] = event[1].failure
                if interruption.requested is not None:
                    self.executor.stop()
        left = [cell for cell in cells if not cell.finished and cell.name not in failures]
        if left:
            raise InterruptedRunError(
                f"stopped by {interruption.requested}: {total - len(left)} of {total} cells are done, what "
                f"the others had is saved in {out / CELLS}; go on with the same command"
            )
        return failures

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False)


@contextmanager
def study_lock(out: Path) -> Iterator[None]:
    """Makes the folder of a study, and keeps everybody else from running one there.

    What killed processes left in it under temporary names is removed.

    Raises:
        RunError: Somebody else does, or it cannot be written.
    """
    lock = FileLock(out / ".study.lock", timeout=0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with suppress(NotImplementedError):  # a file system without locks, such as some network ones
            lock.acquire()
    except Timeout:
        raise RunError(f"{out}: a study is running there; wait for its end, or give another --out") from None
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror or error}; give another --out") from error
    try:
        for folder in (out, out / CELLS):
            remove_leftovers(folder)
        yield
    finally:
        lock.release()


def _claim(study: Study, out: Path) -> None:
    """Notes which study a folder is of; the same one may have changed meanwhile.

    Raises:
        RunError: It is another's, whose results would be overwritten, or the note is damaged.
    """
    path = out / "study.json"
    if path.exists():
        try:
            before = Study.model_validate(read_json(path))
        except ValueError as error:
            raise RunError(f"{path} is damaged; remove it if {out} is of this study") from error
        if not _same(before, study):
            raise RunError(f"{out} has the results of another study, {before.title!r}: give another --out")
    write_json(path, study.model_dump(mode="json", by_alias=True))


def _same(before: Study, now: Study) -> bool:
    """Whether both are of one study: of the same task, with the same title or else a factor in common."""
    if short_name(before.task) != short_name(now.task):
        return False
    if before.study and now.study:
        return before.study == now.study
    paths = [{factor.path for factor in each.factors.values()} for each in (before, now)]
    return bool(set.intersection(*paths))


def _begun(study: Study, baseline: Arm) -> StudyResults:
    """Returns results that say what the study is decided by, before anything is run; all arms share it."""
    registry, chosen = baseline.resolved.registry, baseline.resolved.task.evaluation.metrics
    metrics = {each.score_name: registry.create(Kind.METRIC, each.name, **each.options) for each in chosen}
    record = {
        **study.model_dump(mode="json", by_alias=True),
        "study": study.title,
        "metric": primary_metric(study, baseline.resolved),
        "split": deciding_split(study, baseline.hashes),
        "seeds": study.seed_list,
    }
    return StudyResults(record, (), (), {}, metrics)


def _best(trials: Sequence[tuple[Arm, CellResult]], results: StudyResults) -> Arm:
    """Returns the trial of an arm that was best; of equals the one of lower loss, then the first.

    If all failed, it is the first, which then says so.
    """
    metric = results.study["metric"]
    sign = -1.0 if results.metrics[metric].higher_is_better else 1.0

    def rank(trial: tuple[Arm, CellResult]) -> tuple[float, float]:
        value = trial[1].metrics[metric]
        return (math.inf if math.isnan(value) else sign * value, trial[1].loss)

    finished = [trial for trial in trials if trial[1].failure is None]
    if not finished:
        return replace(trials[0][0], failure=f"every trial failed: {trials[0][1].failure}")
    return min(finished, key=rank)[0]


def _made_of(arms: Sequence[Arm]) -> dict[str, Any]:
    """Returns the components, versions and data of the arms; of data that differ, the baseline's."""
    parts = [ingredients(arm.resolved, arm.hashes) for arm in arms]
    used = {name: lock for each in parts for name, lock in each["components"].items()}
    first = {key: parts[0][key] for key in ("versions", "code", "data")}
    return {**first, "components": dict(sorted(used.items()))}
