"""Engines that read an export, which is made when one is first used, and kept for further uses of the run."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import plugformer
from plugformer.cache import cache_folder, scratch_folder
from plugformer.errors import ConfigurationError
from plugformer.interfaces import Engine
from plugformer.registry import code_hash
from plugformer.runs import RunDirectory, TrainedModel
from plugformer_export.engine import Format
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
        if trained.device.type != self.device:
            raise ConfigurationError(
                f"engine {self.name}: it answers on the CPU, but the device is {trained.device}; leave the "
                "device out, or the engine"
            )
        return self.load(trained, kept(self, trained, notify)).answering


def kept(engine: Format, trained: TrainedModel, notify: Notify) -> Path:
    """Returns the folder of a run's export, which is made and compared with the run if it is not there.

    Nothing is kept in the run: what a run from elsewhere brings has not been compared by this user. The
    folder's name is a hash of all that decides an answer.

    Raises:
        UnsupportedExport, ExportError, DataError, ConfigurationError: As `verified` does.
    """
    engine.require(f"the engine {engine.name}")
    name = key(engine, trained)
    # An export is made in a folder of this process alone, and then named: several may come first.
    folder, made = cache_folder() / "engines" / name, scratch_folder("engines") / name
    for there in (folder, made):
        if (there / RECORD).is_file():
            there.touch()
            return there
    notify(f"engine {engine.name}: converting the run and comparing the answers, once")
    found = verified(trained, engine, made, notify=notify)
    notify("\n".join(f"  {name}: {figure}" for name, figure in found.figures.items()))
    with suppress(OSError):  # another process was faster, or the cache cannot be written
        made.replace(folder)
    return folder if (folder / RECORD).is_file() else made


def seconds(folder: Path) -> tuple[float, float]:
    """Returns what the run and a kept export took to answer the examples of the comparison."""
    own, other = json.loads((folder / RECORD).read_text(encoding="utf-8"))["seconds"]
    return own, other


def key(engine: Format, trained: TrainedModel) -> str:
    """Returns a hash of the files and settings of a run, of the engine, and of the code of both."""
    directory = RunDirectory(trained.place)
    files = sorted(path for path in trained.place.iterdir() if path.suffix in (".json", ".safetensors"))
    hashes = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name == directory.model.name or path.name.startswith(("lock", "tokenizer", "learned"))
    }
    named = {
        "type",
        "model",
        "tokenizer",
        "decoding",
        "evaluation",
        *(["data"] if trained.other_data else ()),
    }
    settings = trained.task.model_dump(mode="json", include=named)
    versions = {name: version(name) for name in (*engine.libraries, "torch")}
    packages = {plugformer.__name__, "plugformer_blocks", __name__, type(engine).__module__}
    code = code_hash([], *sorted(name.rpartition(".")[0] or name for name in packages))
    decisive: Any = [
        hashes,
        settings,
        [engine.name, {name: value for name, value in vars(engine).items() if not name.startswith("_")}],
        [versions, code, list(trained.changes)],
    ]
    return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()[:32]
