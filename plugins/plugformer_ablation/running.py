"""A whole study: arms made comparable, settings chosen, and cells run wherever they are not finished."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.console import Console

from plugformer.errors import InterruptedRunError, RunError
from plugformer.registry import Registry
from plugformer.training import Interruption
from plugformer_ablation.cell import CELLS, Cell, make_cells
from plugformer_ablation.cost import facts_reader
from plugformer_ablation.declaration import Declared
from plugformer_ablation.executor import Ended, Executor
from plugformer_ablation.fairness import Priced, priced
from plugformer_ablation.journal import claim, tell_changes
from plugformer_ablation.outcome import Outcome
from plugformer_ablation.progress import StudyProgress
from plugformer_ablation.resolution import resolve_variants
from plugformer_ablation.results import CellResult, StudyResults
from plugformer_ablation.speed import with_equal_time
from plugformer_ablation.study import TUNING_SEED
from plugformer_ablation.study_lock import study_lock
from plugformer_ablation.tuning import choose, described


@dataclass(frozen=True)
class Conductor:
    """Runs studies.

    Attributes:
        executor: Runs cells.
        registry: What is installed.
        console: Where progress is shown.
    """

    executor: Executor
    registry: Registry
    console: Console

    def run(self, declared: Declared, out: Path) -> StudyResults:
        """Runs a study to its end, or goes on with it; finished cells are not run again.

        Args:
            declared: The study.
            out: Its folder.

        Raises:
            ConfigurationError: An arm cannot be; nothing has been run.
            DataError: The data cannot be read; nothing has been run.
            RunError: The folder cannot be written, is another study's, or a study is running there already.
            InterruptedRunError: Somebody asked to stop; everything so far is saved.
        """
        variants = resolve_variants(declared, self.registry)
        for notice in dict.fromkeys(notice for each in variants for notice in each.resolved.notices):
            self._say(notice)
        with study_lock(out):
            claim(declared.study, out)
            arms = priced(variants, declared, facts_reader(self._say))
            if declared.study.match == "time":
                arms = with_equal_time(arms, out, self.executor.threads, self._say)
            outcome = Outcome.begun(declared, arms[0])
            chosen = self._tuned(arms, outcome, out)
            cells = {
                arm.name: make_cells(arm, declared.study.seed_list, out, outcome.split)
                for arm in chosen
                if arm.failure is None
            }
            found = self._finished([cell for each in cells.values() for cell in each], out)
            results = outcome.results(chosen, list(found.values()))
            results.save(out)
            return results

    def _tuned(self, variants: Sequence[Priced], outcome: Outcome, out: Path) -> list[Priced]:
        """Returns the best variant of each arm; where all trials failed, one that says so."""
        by_arm = [list(each) for _, each in groupby(variants, key=lambda each: each.name)]
        if not variants[0].variant.tuned:
            return list(variants)
        cells = {
            (each.name, described(each)): make_cells(
                each, [TUNING_SEED], out, "validation", tried=described(each)
            )[0]
            for each in variants
        }
        found = self._finished(list(cells.values()), out)
        return [
            choose(
                trials,
                {described(each): found[cells[each.name, described(each)].name] for each in trials},
                outcome.metric,
                higher_is_better=outcome.higher_is_better,
            )
            for trials in by_arm
        ]

    def _finished(self, cells: Sequence[Cell], out: Path) -> dict[str, CellResult]:
        """Returns the result of each cell by its name, once those that have none have been run."""
        found = {cell.name: result for cell in cells if (result := self._kept(cell)) is not None}
        tell_changes(cells, out, self._say)
        waiting = [cell for cell in cells if cell.name not in found]
        if waiting and found:
            self._say(f"{len(found)} of {len(cells)} cells are finished already")
        failures = self._run(waiting, len(cells), out) if waiting else {}
        for cell in waiting:
            failure = failures.get(cell.name)
            found[cell.name] = cell.result() if failure is None else cell.failed(failure)
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
                if isinstance(event, Ended) and event.failure is not None:
                    failures[event.cell.name] = event.failure
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
