"""Engines that read an export, which is made when one is first used, and kept for further uses of the run."""

import hashlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import plugformer
from plugformer.cache import cache_folder, remove_unused
from plugformer.interfaces import Engine
from plugformer.runs import RunDirectory, TrainedModel
from plugformer_export.engine import ExportError, Format, UnsupportedExport
from plugformer_export.verification import RECORD, Notify, verified


class ExportEngine(Format, Engine):
    """An engine that reads a trained model in a format of its own, to which `plugformer export` writes, too.

    When a run is first used with it, an export is made, compared with the run, and kept.

    Attributes:
        automatic: Whether the engine `auto` tries it.
    """

    device = "cpu"
    automatic: ClassVar[bool] = True

    def answering(self, trained: TrainedModel, notify: Notify) -> Callable[[Any], Any]:
        """Returns what puts the export into predictors."""
        return self.load(trained, kept(self, trained, notify)).answering


REFUSED = "refused.txt"
"""Why a run was refused, in place of an export."""


def kept(engine: Format, trained: TrainedModel, notify: Notify) -> Path:
    """Returns the folder of a run's export, which is made and compared with the run if it is not there.

    Nothing is kept in the run: what a run from elsewhere brings has not been compared by this user. The
    folder's name is a hash of all that decides an answer. That a run was refused is kept, too.

    Raises:
        UnsupportedExport, ExportError, DataError, ConfigurationError: As `verified` does.
    """
    engine.require(f"the engine {engine.name}")
    folder = cache_folder() / "engines" / key(engine, trained)
    if (folder / RECORD).is_file():
        folder.touch()
        return folder
    if (folder / REFUSED).is_file():
        raise UnsupportedExport((folder / REFUSED).read_text(encoding="utf-8"))
    if folder.parent.is_dir():
        remove_unused(folder.parent)
    notify(f"engine {engine.name}: converting the run and comparing the answers, once")
    try:
        found = verified(trained, engine, folder, notify=notify)
    except (UnsupportedExport, ExportError) as error:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REFUSED).write_text(str(error), encoding="utf-8")
        raise
    notify("\n".join(f"  {name}: {figure}" for name, figure in found.figures.items()))
    return folder


def seconds(folder: Path) -> tuple[float, float]:
    """Returns what the run and a kept export took to answer the examples of the comparison."""
    own, other = json.loads((folder / RECORD).read_text(encoding="utf-8"))["seconds"]
    return own, other


def key(engine: Format, trained: TrainedModel) -> str:
    """Returns a hash of the files and settings of a run, of the engine, and of the versions of both."""
    directory = RunDirectory(trained.place)
    files = sorted(path for path in trained.place.iterdir() if path.suffix in (".json", ".safetensors"))
    hashes = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name == directory.model.name or path.name.startswith(("lock", "tokenizer", "learned"))
    }
    settings = trained.task.model_dump(
        mode="json", include={"type", "model", "tokenizer", "decoding", "evaluation"}
    )
    versions = {name: version(name) for name in (*engine.libraries, "torch")}
    decisive: Any = [
        hashes,
        settings,
        [engine.name, {name: value for name, value in vars(engine).items() if not name.startswith("_")}],
        [versions, plugformer.__version__, list(trained.changes)],
    ]
    return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()[:32]
