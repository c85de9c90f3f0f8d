"""What makes computations repeatable: seeds and states of random generators, and MKL's first calls.

Training may draw from Python's and NumPy's generators, and from PyTorch's of the CPU and of its own device.
"""

import hashlib
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch

CPU = torch.device("cpu")

VECTOR_FUNCTIONS = (
    *("acos", "asin", "atan", "cos", "erf", "erfc", "erfinv", "exp"),
    *("log", "log10", "log2", "sin", "sqrt", "tan", "tanh", "trunc"),
)
"""The functions that PyTorch's builds for x86 take from Intel's MKL."""


def seed_generators(seed: int, process: int = 0) -> None:
    """Seeds every generator; processes of different numbers draw different random numbers."""
    if process:
        seed = int(np.random.SeedSequence([seed, process]).generate_state(1)[0])
    random.seed(seed)
    np.random.seed(seed % 2**32)  # NumPy takes 32 bits
    torch.manual_seed(seed)


def generator_states(device: torch.device = CPU) -> dict[str, Any]:
    """Returns the states of all generators that a process with this device draws from: tensors and numbers.

    That of a device has its type as its name, without the number, which another machine may lack.
    """
    version, words, gauss = random.getstate()
    algorithm, key, *rest = np.random.get_state()
    states = {
        "python": (version, torch.tensor(words), gauss),
        "numpy": (algorithm, torch.tensor(np.asarray(key, dtype=np.int64)), *rest),
        "cpu": torch.get_rng_state(),
    }
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state(*_numbered(device))
    return states


def restore_generators(states: Mapping[str, Any], device: torch.device = CPU) -> None:
    """Restores the states that `generator_states` returned; ignores that of a device of another type."""
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words.tolist()), gauss))
    algorithm, key, *rest = states["numpy"]
    np.random.set_state((algorithm, key.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(states["cpu"])
    if device.type == device_type(states) != "cpu":
        torch.get_device_module(device).set_rng_state(states[device.type], *_numbered(device))


def device_type(states: Mapping[str, Any]) -> str:
    """Returns the type of the device whose state is among those of the generators: `cuda`, for example."""
    return next((name for name in states if name not in ("python", "numpy", "cpu")), "cpu")


def _numbered(device: torch.device) -> tuple[torch.device, ...]:
    """Returns the device, where a machine can have several of its type."""
    return () if device.type == "mps" else (device,)


@contextmanager
def random_stream(seed: int, name: str) -> Iterator[None]:
    """Makes torch's CPU generator depend on the seed and the name within the block, and restores it after."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(stream_seed(seed, name))  # no other device's
        yield


def stream_seed(seed: int, name: str) -> int:
    """Returns the seed of the stream of random numbers with a name."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@cache
def warm_up_mkl() -> None:
    """Calls each function on one number, once in a process.

    If several threads make MKL's first call of a function, one of them may use another kernel, whose relative
    errors reach 1e-4: trainings would differ. https://github.com/pytorch/pytorch/issues/188792
    """
    for dtype in (torch.float32, torch.float64):
        number = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for name in VECTOR_FUNCTIONS:
            getattr(torch, name)(number)
