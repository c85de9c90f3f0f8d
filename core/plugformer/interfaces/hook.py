"""Hooks that take part in a training: what changes batches, losses, updates or the values that are saved."""

from collections.abc import Mapping
from typing import Any

import torch


class Hook:
    """Takes part in a training, at one or more of the places that `plugformer.hooks.TrainingHooks` lists.

    A component is constructed as `SomeHook(**options)`; `training.hooks` of a task lists it. A method that is
    called like a place, is marked `plugformer.hooks.hookimpl` and takes any of its arguments is called there.
    pluggy's own means apply: an implementation that returns a value ends the call, one marked `wrapper=True`
    stands around the others and what the core does (`result = yield`, then `return` of that or another one),
    `tryfirst` and `trylast` move it. Results pass through the wrappers in the order of the list. A component
    may look on as well, by implementing hooks of `plugformer.hooks.Hooks`.

    An error ends the training, with the component's name. All processes of a training have the component and
    call it, so what it does to parameters must not depend on the process.
    """

    generator: torch.Generator
    """Where random numbers come from, on the CPU. For each batch, loss and step it is seeded from the task's
    seed and replicate, the component's name in the list, the hook, the update and the batch within it; so
    resuming, other hooks and the number of processes change nothing. (With `training.shard` parameters are
    parts, and each process adds the same numbers to its own.)"""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that a resumed training needs, for checkpoints; empty by default.

        Tensors, numbers, texts, and lists, tuples and mappings of them. A tensor of a parameter's shape under
        the parameter's name is shared out like the parameter where `training.shard` is set.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `state_dict` returned; its tensors are in main memory."""
