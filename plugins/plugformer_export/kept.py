"""Engines: those that read an export, which is made once and kept; the model itself; the fastest of all."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import plugformer
from plugformer.cache import cache_folder, scratch_folder
from plugformer.errors import ConfigurationError, PlugformerError
from plugformer.interfaces import Engine
from plugformer.registry import Kind, code_hash
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


class Torch(Engine):
    """The model itself, computed by PyTorch: the reference of all engines.

    https://pytorch.org
    """

    def answering(self, trained: TrainedModel, notify: Notify) -> Callable[[Any], Any]:  # noqa: ARG002
        """Returns what changes nothing."""
        return _unchanged


class Auto(Engine):
    """The fastest of the installed engines that give the same answers, or the model itself.

    Each engine that computes in float32 on a processor is compared with the run when it is first used. The
    fastest is the one that took least time for the examples of its comparison. On a GPU the model answers. To
    choose by measurement: Whaley and Dongarra 1998, https://doi.org/10.1109/SC.1998.10004.
    """

    def answering(self, trained: TrainedModel, notify: Notify) -> Callable[[Any], Any]:
        """Returns what the fastest engine does."""
        if trained.device.type != "cpu":
            return _unchanged
        found: dict[str, float] = {}
        engines: dict[str, ExportEngine] = {}
        for entry in trained.registry.entries(Kind.ENGINE):
            name = entry.name
            try:
                kind: Any = trained.registry.load(Kind.ENGINE, name)
                if not (issubclass(kind, ExportEngine) and kind.automatic):
                    continue
                engine = trained.registry.create(Kind.ENGINE, name)
                own, other = seconds(kept(engine, trained, notify))
            except PlugformerError as error:
                notify(f"engine {name}: not used: {str(error).splitlines()[0]}")
            else:
                found[name], engines[name] = own / other, engine
        fastest = max(found, key=lambda name: found[name], default="torch")
        if found.get(fastest, 0.0) <= 1.0:
            notify("engine torch answers" + (": the others are slower" if found else ""))
            return _unchanged
        notify(f"engine {fastest} answers: {found[fastest]:.2g} times as fast as torch in its comparison")
        return engines[fastest].answering(trained, notify)


def _unchanged(predictor: Any) -> Any:
    return predictor
