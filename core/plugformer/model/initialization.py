"""Initial values: every module draws from a stream of its own, so that parts that two models share agree."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum

import torch
from torch import nn

from plugformer.errors import RegistryError


class Initialization(StrEnum):
    """How initial values are drawn; a task's `model.initialization`."""

    DEFAULT = "default"
    XAVIER = "xavier"


def initialize(model: nn.Module, seed: int, scheme: Initialization) -> None:
    """Draws all initial values of a model; each depends on the seed and the parameter's path alone.

    Every module that holds parameters draws them in `reset_parameters`, children before parents. The Xavier
    scheme then redraws every matrix uniformly (Glorot and Bengio 2010, equation 16,
    https://proceedings.mlr.press/v9/glorot10a.html).

    Raises:
        RegistryError: A module holds parameters, but neither it nor a parent has `reset_parameters`.
    """
    refuse_hidden_values(model)
    for path, module in reversed(list(model.named_modules())):
        reset: Callable[[], object] | None = getattr(module, "reset_parameters", None)
        if reset is not None:
            with random_stream(seed, path):
                reset()
    if scheme is Initialization.XAVIER:
        for path, parameter in model.named_parameters():
            if parameter.dim() > 1:
                with random_stream(seed, path):
                    nn.init.xavier_uniform_(parameter)


@contextmanager
def random_stream(seed: int, name: str) -> Iterator[None]:
    """Inside, torch draws CPU random numbers that depend on the seed and a name; outside nothing changes."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(stream_seed(seed, name))  # no other device's
        yield


def stream_seed(seed: int, name: str) -> int:
    """Returns the seed of a stream of random numbers, which a seed and the stream's name decide."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def refuse_hidden_values(module: nn.Module, path: str = "model") -> None:
    """Raises RegistryError if a module holds parameters that no `reset_parameters` would draw."""
    if hasattr(module, "reset_parameters"):
        return
    own = [name for name, _ in module.named_parameters(recurse=False)]
    if own:
        raise RegistryError(
            f"{path} ({type(module).__module__}:{type(module).__qualname__}) holds the parameters "
            f"{', '.join(own)} but has no reset_parameters(): define it and draw their initial values there, "
            "so that they depend on the seed and the parameter's path alone"
        )
    for name, child in module.named_children():
        refuse_hidden_values(child, f"{path}.{name}")
