"""What an arm costs, before it is trained: parameters, and floating-point operations for each token."""

import json
from collections.abc import Callable
from dataclasses import dataclass

import torch

from plugformer.configuration import ResolvedTask, Task
from plugformer.data import PreparedData, fingerprint, prepare
from plugformer.interfaces import Batch, Sizes
from plugformer.model import assemble, summarize
from plugformer.registry import Registry
from plugformer.training import median_example


@dataclass(frozen=True)
class Facts:
    """What a study must know of an arm's data.

    Attributes:
        sizes: Of the vocabularies.
        example: A training example of median length.
        hashes: A hash of each split's content.
        kept: A hash of the inputs of each split that the length limit has left.
    """

    sizes: Sizes
    example: Batch
    hashes: dict[str, str]
    kept: dict[str, str]


@dataclass(frozen=True)
class Cost:
    """What a model costs.

    Attributes:
        parameters: Their number.
        flops_per_token: Operations of a forward pass over an example of median length, for each of its
            source and target tokens; a multiplication and an addition are two.
    """

    parameters: int
    flops_per_token: float


def facts_reader(notify: Callable[[str], None]) -> Callable[[ResolvedTask], Facts]:
    """Returns what prepares a task's data, once for all arms of the same, and leaves them in the cache.

    Args:
        notify: Receives what people should know about the preparation.
    """
    known: dict[str, Facts] = {}

    def read(resolved: ResolvedTask) -> Facts:
        key = _data_key(resolved.task)
        if key not in known:
            data = prepare(resolved.task, resolved.registry)
            for notice in (*data.notices, *(f"{name}: {count}" for name, count in data.lengths.items())):
                notify(notice)
            known[key] = Facts(
                data.vocabularies.sizes, median_example(data)[1], data.hashes, _kept_hashes(data)
            )
        return known[key]

    return read


def count_parameters(task: Task, sizes: Sizes, registry: Registry) -> int:
    """Returns the number of a model's parameters; nothing is allocated for them."""
    with torch.device("meta"):
        model = assemble(task, sizes, registry)
    return sum(parameter.numel() for parameter in model.parameters())


def cost_of(task: Task, facts: Facts, registry: Registry) -> Cost:
    """Returns what the model of a task costs."""
    try:
        whole = _counted("meta", task, facts, registry)
    except (NotImplementedError, RuntimeError):  # operations that depend on values, such as routing
        whole = _counted("cpu", task, facts, registry)
    return whole


def _counted(device: str, task: Task, facts: Facts, registry: Registry) -> Cost:
    with torch.device(device):
        model = assemble(task, facts.sizes, registry)
    whole = summarize(model, facts.example.to(device))[0]
    return Cost(whole.parameters, whole.flops / facts.example.tokens)


def _data_key(task: Task) -> str:
    """Returns all that a task's data depend on."""
    blocks = (task.type, task.data, task.tokenizer, task.model.architecture)
    return json.dumps([*(block.model_dump(mode="json") for block in blocks), task.model.max_length])


def _kept_hashes(data: PreparedData) -> dict[str, str]:
    """Returns what tells apart which examples are measured; where none is dropped, the content does."""
    return {
        name: fingerprint(*(split.input(row) for row in range(len(split))))
        if data.lengths[name].dropped
        else data.hashes[name]
        for name, split in data.splits.items()
        if name != "train"
    }
