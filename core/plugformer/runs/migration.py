"""Runs of earlier versions, read as this one would have written them."""

import re
from collections.abc import Mapping as Map
from dataclasses import replace
from typing import Any

from torch import Tensor

from plugformer.configuration.task import Model, Training
from plugformer.documents import Mapping, Node, Scalar
from plugformer.kinds import Kind
from plugformer.problems import Key

_NEW_KINDS = (Kind.TASK_TYPE, Kind.ARCHITECTURE, Kind.RESIDUAL, Kind.INITIALIZATION)
"""Of what was no component once."""

_RENAMED = {"model": Model.renamed, "training": Training.renamed}

_NORM = re.compile(r"(\.layers\.\d+\.)(attention|cross_attention|feed_forward)_residual\.norm\.")


def migrated_task(tree: Mapping) -> Mapping:
    """Returns the task of a run, with the keys that it would have today.

    `Settings.renamed` of a block lists those that have other names now. Besides, in the time of
    `model.placement`, position `t5` kept half of its buckets for tokens ahead where attention is causal, too.
    """
    renamed: dict[Key, Node] = {}
    for name, keys in _RENAMED.items():
        if isinstance(block := tree.items.get(name), Mapping):
            changed = _with_keys_of_today(block, keys)
            told = "placement" in block.items and "placement" not in changed.items
            renamed[name] = _both_directions(changed) if told else changed
    return replace(tree, items={**tree.items, **renamed})


def migrated_tensors(tensors: Map[str, Tensor]) -> dict[str, Tensor]:
    """Returns a model's tensors; each norm of a layer used to be in a module around its sublayer."""
    return {_NORM.sub(r"\1residual.norms.\2.", name): tensor for name, tensor in tensors.items()}


def migrated_lock(lock: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Returns the lock of a run; what was no component when it began is as it is now.

    Args:
        lock: The run's.
        now: That of the same task with what is installed.
    """
    new = {
        path: record
        for path, record in now["components"].items()
        if (kind := path.partition("/")[0]) in _NEW_KINDS
        and not any(each.startswith(f"{kind}/") for each in lock["components"])
    }
    return {**lock, "components": {**lock["components"], **new}}


def _with_keys_of_today(block: Mapping, renamed: Map[str, str]) -> Mapping:
    """Returns a block of a task under the new names of its keys; a key that is there by both stays."""
    new = {old: now for old, now in renamed.items() if now not in block.items}
    items = {new.get(str(key), key): item for key, item in block.items.items()}
    keys = {new.get(str(key), key): origin for key, origin in block.keys.items()}
    return replace(block, items=items, keys=keys)


def _both_directions(node: Node, key: object = None) -> Node:
    """Returns a part of a task in which position `t5` is told to have buckets for both directions."""
    if not isinstance(node, Mapping):
        return node
    items = {key: _both_directions(item, key) for key, item in node.items.items()}
    name = items.get("name")
    if key == Kind.POSITION and isinstance(name, Scalar) and name.value in ("t5", "plugformer:t5"):
        items["bidirectional"] = Scalar(True, node.origin)
        return replace(node, items=items, keys={**node.keys, "bidirectional": node.origin})
    return replace(node, items=items)
