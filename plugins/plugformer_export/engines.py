"""The engines that need no export: the model itself, and the fastest of all."""

from collections.abc import Callable
from typing import Any

from plugformer.errors import PlugformerError
from plugformer.interfaces import Engine
from plugformer.registry import Kind
from plugformer.runs import TrainedModel
from plugformer_export.kept import ExportEngine, kept, seconds

Notify = Callable[[str], None]


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
