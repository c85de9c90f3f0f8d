"""What a model consists of and what it costs, before any training."""

from collections import Counter
from collections.abc import Container
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from plugformer.data import PreparedData, prepare
from plugformer.experiment import Experiment
from plugformer.interfaces import Batch, Model, PositionalEncoding, evaluating
from plugformer.model import Sizes, build, example_batch
from plugformer.runs import RunDirectory, read_processor

ASSUMED = Sizes(source=8000, outputs=8000)
"""Sizes of vocabularies that are not there yet, where no option of their tokenizers says more."""

ASSUMED_LENGTH = 32


@dataclass(frozen=True)
class ModuleSummary:
    """A module by the name of its class, and the shape of its output, empty if that is no tensor.

    Each parameter counts once. In `flops` of a forward pass, those of matrix products and convolutions, a
    multiplication and an addition are two. `elements` are the numbers that all other operators write.
    """

    path: str
    module: str
    shape: tuple[int, ...]
    parameters: int
    flops: int
    elements: int


class OtherElements(TorchDispatchMode):
    """Counts the elements that operators write, except for those whose floating-point operations are known.

    A view writes nothing. An operator that nobody knows counts like all others.
    """

    def __init__(self, known: Container[Any]) -> None:
        super().__init__()
        self._known = known
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs an operator."""
        output = func(*args, **(kwargs or {}))
        if func._overloadpacket not in self._known:
            given = (
                set() if func._schema.is_mutable else {_storage(leaf) for leaf in _tensors((args, kwargs))}
            )
            self.count += sum(leaf.numel() for leaf in _tensors(output) if _storage(leaf) not in given)
        return output


def _tensors(values: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def preview_model(
    experiment: Experiment, run: RunDirectory | None = None, *, read_data: bool
) -> tuple[list[ModuleSummary], str]:
    """Returns the modules of a task's untrained model, and words about the example and the vocabularies.

    With `read_data` these are the data's and the example has median length; otherwise both are assumed,
    except for the vocabularies of a run.
    """
    if read_data:
        data = prepare(experiment)
        name, batch = median_example(data)
        sizes, origin = data.processor.sizes, f"of the split {name}"
    else:
        blocks = experiment.task.tokenizer
        source, target = (block.options.get("size") for block in (blocks.source, blocks.target))
        sizes = Sizes(
            source=source if isinstance(source, int) else ASSUMED.source,
            outputs=target if isinstance(target, int) else ASSUMED.outputs,
        )
        origin = "assumed; --data reads the data"
        if run is not None and run.learned.is_file():
            sizes, origin = read_processor(run, experiment).sizes, "of the run"
        task_type = experiment.task_type
        lengths = [ASSUMED_LENGTH]
        batch = example_batch(experiment.architecture, task_type.level, task_type.inputs, lengths)
        batch = replace(batch, rows=[0])
    length = f"{batch.source.count} source and {batch.target.count} target tokens"
    words = f"one example of {length}; {sizes.source:,} input tokens, {sizes.outputs:,} outputs ({origin})"
    return summarize(build(experiment.spec, sizes), batch), words


def median_example(data: PreparedData) -> tuple[str, Batch]:
    """Returns a training example of median length, and its split: validation where training is streamed."""
    name = "train" if "train" in data.splits else "validation"
    totals = data.splits[name].lengths.sum(axis=1)
    median = int(np.argsort(totals, kind="stable")[len(totals) // 2])
    return name, data.splits[name].batch([median])


def summarize(model: Model, batch: Batch) -> list[ModuleSummary]:
    """Runs a forward pass and returns the model and its modules, down to the sublayers of each layer."""
    shapes: dict[str, tuple[int, ...]] = {}
    flops: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    counter = FlopCounterMode(display=False)
    others = OtherElements(counter.flop_registry)

    begun: list[tuple[int, int]] = []

    def begin(*_: object) -> None:
        begun.append((counter.get_total_flops(), others.count))

    def end(path: str, _: nn.Module, arguments: object, output: object) -> None:  # noqa: ARG001 (torch's)
        before, written = begun.pop()
        flops[path] += counter.get_total_flops() - before
        elements[path] += others.count - written
        tensor = getattr(output, "hidden", output)
        if isinstance(tensor, Tensor):
            shapes.setdefault(path, tuple(tensor.shape))

    shown = _shown(model)
    # The counter does not know the CPU's fused attention; matrix products count the same everywhere.
    with evaluating(model), sdpa_kernel(SDPBackend.MATH), ExitStack() as hooks:
        for path, module in shown:
            if not isinstance(module, PositionalEncoding):  # its methods compute within other modules
                hooks.enter_context(module.register_forward_pre_hook(begin))
                hooks.enter_context(module.register_forward_hook(partial(end, path)))
        with others, counter:  # the latter hands on what it does not know, taken apart if that is possible
            shapes[""] = tuple(model.logits(batch).shape)
    flops[""], elements[""] = counter.get_total_flops(), others.count
    summaries = []
    for path, module in shown:
        parameters = sum(parameter.numel() for parameter in module.parameters())
        name, shape = type(module).__name__, shapes.get(path, ())
        summaries.append(ModuleSummary(path, name, shape, parameters, flops[path], elements[path]))
    return summaries


def _shown(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Returns the model, its stacks, layers and their sublayers: what a task file can name, and no deeper."""
    return [
        (path, module)
        for path, module in model.named_modules()
        if path.count(".") <= 3
        and not path.startswith(("encoder.position.", "decoder.position."))
        and not isinstance(module, nn.ModuleList | nn.Identity)
        and not path.endswith(("dropout", ".residual"))
    ]
