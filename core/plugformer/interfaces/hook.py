"""Hooks that take part in a training: what changes batches, losses, updates or the values that are saved."""

from collections.abc import Mapping
from typing import Any

import torch


class Hook:
    """Takes part in a training by implementing hooks of `plugformer.hooks.TrainingHooks`.

    A component is constructed as `SomeHook(**options)`; `training.hooks` of a task lists it. It implements a
    hook by a method of the same name, marked with `plugformer.hooks.hookimpl`, with any of the arguments. As
    in pluggy, an implementation that returns a value ends the call, `wrapper=True` wraps the others and the
    core (`result = yield`, then `return`), and `tryfirst` and `trylast` change the order. A component may
    also observe by implementing hooks of `plugformer.hooks.Hooks`.

    An error ends the training. All processes of a training call the component, so its effect on parameters
    must not depend on the process.
    """

    generator: torch.Generator
    """The source of random numbers, on the CPU.

    It is seeded for each call from the task's seed and replicate, the component's name, the hook, the update
    and the batch, so resuming, other hooks and the number of processes change nothing.
    """

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for checkpoints, empty by default: tensors, numbers, texts and containers.

        With `training.shard`, a tensor with a parameter's name and shape is sharded like the parameter.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `state_dict` returned; its tensors are on the CPU."""
