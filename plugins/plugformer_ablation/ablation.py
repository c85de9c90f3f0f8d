"""`ablate`: a study from Python, from the first training to the report."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from plugformer.configuration import read_dictionary
from plugformer.registry import Registry
from plugformer_ablation.design.reading import read_study
from plugformer_ablation.judging.findings import find
from plugformer_ablation.reporting.report import StudyReport
from plugformer_ablation.running.executors import Executor, InlineExecutor, LocalExecutor
from plugformer_ablation.running.running import run_study


def ablate(
    study: str | Path | Mapping[str, Any],
    *,
    data: Any = None,
    components: Mapping[str, Mapping[str, type]] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    costs: bool = True,
) -> StudyReport:
    """Runs a study like `plugformer ablate`, and writes its report; the same call resumes it.

    The arms may be given by name, the first is the baseline::

        ablate({"task": "dates", "arms": {"mha": {}, "mqa": {"model": {"attention": "mqa"}}}, "seeds": 3})

    Args:
        study: A study file, or a dict with the same keys, in which a component may be a class.
        data: Rows in memory in place of the task's data; see `plugformer.train`.
        components: Classes of this session by kind and name, which the study's arms can name. With classes or
            rows, cells run one after the other in this process.
        out: The study's folder; `studies/TITLE` if None.
        workers: Largest number of cells at a time; one for each GPU, or else core, if None.
        costs: Compare in the end what an update of each arm costs; not of classes or rows of this session.

    Raises:
        ConfigurationError: The study or the configuration of an arm is wrong; nothing has been run.
        DataError: The data cannot be read; nothing has been run.
        RunError: The folder cannot be written or belongs to another study.
        InterruptedRunError: The user or the system asked to stop; everything so far is saved.
    """
    console, installed = Console(stderr=True), Registry.discover()
    registry = installed.with_components(components) if components else installed
    if isinstance(study, Mapping):
        tree, registry = read_dictionary(study, "study", registry)
        declared = read_study(tree)
    else:
        declared = read_study(str(study))
    rows = data if data is None or (isinstance(data, Mapping) and "train" in data) else {"train": data}
    executor: Executor = LocalExecutor(workers)
    if registry is not installed or data is not None:
        console.print("cells run one after the other: classes and rows of this session stay in this process")
        executor, costs = InlineExecutor(registry=registry, data=rows), False
    folder = Path(out or declared.default_folder)
    report = StudyReport(find(run_study(declared, folder, registry, executor, console, rows, costs=costs)))
    report.write(folder, partial(console.print, markup=False, highlight=False))
    return report
