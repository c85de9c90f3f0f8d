"""Runs of earlier versions, read as this one would have written them."""

import re
from collections.abc import Mapping as Map
from dataclasses import replace
from typing import Any

from torch import Tensor

from plugformer.documents import Mapping, Node, Scalar
from plugformer.kinds import Kind
from plugformer.registry.discovery import BUILT_IN

_NEW_KINDS = (Kind.TASK_TYPE, Kind.ARCHITECTURE, Kind.RESIDUAL, Kind.INITIALIZATION)
"""Of what was no component once."""

_NORM = re.compile(r"(\.layers\.\d+\.)(attention|cross_attention|feed_forward)_residual\.norm\.")


def migrated_task(tree: Mapping) -> Mapping:
    """Returns the task of a run.

    Before there were components of kind `residual`, it said `placement`, pre or post; and position `t5` took
    half of its buckets for tokens ahead, also where attention is causal.
    """
    model = tree.items.get("model")
    if not isinstance(model, Mapping) or "placement" not in model.items or "residual" in model.items:
        return tree
    changed = _both_directions(_renamed(model, "placement", "residual"))
    return replace(tree, items={**tree.items, "model": changed})


def migrated_tensors(tensors: Map[str, Tensor]) -> dict[str, Tensor]:
    """Returns a model's tensors; each norm of a layer used to be in a module around its sublayer."""
    return {_NORM.sub(r"\1residual.norms.\2.", name): tensor for name, tensor in tensors.items()}


def migrated_lock(lock: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Returns the lock of a run; what was no component, or no hooks, when it began is as it is now.

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
    migrated = {**lock, "components": {**lock["components"], **new}}
    if isinstance(lock.get("hooks"), dict):
        built_in = {
            path: record
            for path, record in now["hooks"].items()
            if record["distribution"] == BUILT_IN.distribution
        }
        migrated["hooks"] = {**built_in, **lock["hooks"]}
    return migrated


def _renamed(mapping: Mapping, old: str, new: str) -> Mapping:
    items = {new if key == old else key: item for key, item in mapping.items.items()}
    keys = {new if key == old else key: origin for key, origin in mapping.keys.items()}
    return replace(mapping, items=items, keys=keys)


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
