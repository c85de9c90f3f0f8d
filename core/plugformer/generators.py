"""Random generators: named streams of random numbers, and the states of the generators of a training.

Training may draw from Python's and NumPy's generators, and from PyTorch's of the CPU and of its own device.
"""

import hashlib
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

CPU = torch.device("cpu")

_CPU, _PYTHON, _NUMPY = "generator/cpu", "generator/python", "generator/numpy"
_GAUSS = "/gauss"  # normal numbers are drawn in pairs: the second one
_DEVICE = "generator/device/"  # its type follows, without the number, which another machine may lack


def seed_generators(seed: int, process: int = 0) -> None:
    """Seeds every generator; processes of different numbers draw different random numbers."""
    if process:
        seed = int(np.random.SeedSequence([seed, process]).generate_state(1)[0])
    random.seed(seed)
    np.random.seed(seed % 2**32)  # NumPy takes 32 bits
    torch.manual_seed(seed)


def generator_states(device: torch.device = CPU) -> dict[str, Tensor]:
    """Returns the states of all generators that a process with this device draws from, by name."""
    _, words, gauss = random.getstate()
    _, key, *rest = np.random.get_state()
    states = {
        _CPU: torch.get_rng_state(),
        _PYTHON: torch.tensor(words, dtype=torch.int64),
        _PYTHON + _GAUSS: torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
        _NUMPY: torch.tensor(np.asarray(key, dtype=np.int64)),
        _NUMPY + _GAUSS: torch.tensor(rest, dtype=torch.float64),  # with the place in the key before it
    }
    if device.type != "cpu":
        states[_DEVICE + device.type] = torch.get_device_module(device).get_rng_state(*_numbered(device))
    return states


def restore_generators(states: Mapping[str, Tensor], device: torch.device = CPU) -> None:
    """Restores the states that `generator_states` returned; ignores that of a device of another type."""
    gauss = states[_PYTHON + _GAUSS].tolist()
    random.setstate((3, tuple(states[_PYTHON].tolist()), gauss[0] if gauss else None))
    position, has_gauss, second = states[_NUMPY + _GAUSS].tolist()
    key = states[_NUMPY].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", key, int(position), int(has_gauss), second))
    torch.set_rng_state(states[_CPU])
    if device.type == device_type(states) != "cpu":
        torch.get_device_module(device).set_rng_state(states[_DEVICE + device.type], *_numbered(device))


def _numbered(device: torch.device) -> tuple[torch.device, ...]:
    """Returns the device, where a machine can have several of its type."""
    return () if device.type == "mps" else (device,)


def device_type(states: Mapping[str, Tensor]) -> str:
    """Returns the type of the device whose state is among those of the generators: `cuda`, for example."""
    return next((name.removeprefix(_DEVICE) for name in states if name.startswith(_DEVICE)), "cpu")


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
