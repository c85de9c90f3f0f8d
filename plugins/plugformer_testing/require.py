"""Requirements of contracts: each fails the check with one sentence unless it holds."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor


def that(condition: object, message: str) -> None:
    """Fails with the message unless the condition is true."""
    if not condition:
        pytest.fail(message, pytrace=False)


def equal(found: object, expected: object, what: str) -> None:
    """Requires what was found to be what was expected."""
    that(found == expected, f"{what} is {found!r}, expected {expected!r}")


def shaped(value: object, shape: tuple[int, ...], what: str) -> None:
    """Requires a tensor of a shape."""
    found = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
    that(found == shape, f"{what} is {found}, expected a tensor of shape {shape}")


def finite(tensor: Tensor, what: str) -> None:
    """Requires that a tensor has neither NaN nor infinity."""
    that(tensor.isfinite().all(), f"{what} is not finite")


def close(actual: Tensor, expected: Tensor, message: str, *, tolerance: float = 1e-5) -> None:
    """Requires two tensors to agree in shape and, within a tolerance, in all values.

    The tolerance is far above the rounding of float64, in which most checks compute, and just above that of
    float32, in which a component may compute inside. Faults are as large as the values themselves.
    """
    try:
        torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)
    except AssertionError as error:
        lines = str(error).splitlines()
        difference = next((line for line in lines if "bsolute difference" in line), lines[0])
        pytest.fail(f"{message} ({difference})", pytrace=False)


def same(
    actual: Mapping[str, Tensor], expected: Mapping[str, Tensor], how: str, *, tolerance: float = 0.0
) -> None:
    """Requires tensors of the same names to have the same values."""
    equal(sorted(actual), sorted(expected), f"{how}, what there is")
    for name, value in expected.items():
        close(actual[name], value, f"{how}, {name} is different", tolerance=tolerance)


@contextmanager
def undrawn() -> Iterator[None]:
    """Requires that nothing is drawn from the random generators of the process."""
    before = _generators()
    yield
    that(_generators() == before, "it draws from a generator of the process; it must use one of its own")


def _generators() -> tuple[object, ...]:
    return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())
