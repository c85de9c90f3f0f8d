"""A check: one sentence of a contract, the function that tries it, and the cases it is tried on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import torch
from torch import Tensor

Function: TypeAlias = Callable[..., str | None]
"""Takes a Subject and, if the check has cases, one of them; raises Violation or NotApplicable.

What it returns is a note for those who read the report.
"""


class Violation(Exception):  # noqa: N818 (what it says is that a contract is violated)
    """A component does not keep its contract; the message names the fault.

    Attributes:
        traceback: Of what the component raised, if that is the fault.
    """

    traceback: str = ""


class NotApplicable(Exception):  # noqa: N818
    """A case or a whole check does not concern this component; the message says why."""


@dataclass(frozen=True)
class Check:
    """One sentence of a contract.

    Attributes:
        name: What it is called in reports and in declarations of expected failures.
        statement: The sentence.
        function: Tries it.
        cases: What it is tried on, the smallest first; empty if there is only one.
        simpler: Returns simpler variants of a failing case, the simplest first.
    """

    name: str
    statement: str
    function: Function
    cases: tuple[Any, ...] = ()
    simpler: Callable[[Any], Iterable[Any]] = lambda case: ()  # noqa: ARG005


def check(
    cases: Iterable[Any] = (),
    simpler: Callable[[Any], Iterable[Any]] = lambda case: (),  # noqa: ARG005
) -> Callable[[Function], Check]:
    """Makes a function a check; its name is the check's, its docstring the statement."""

    def made(function: Function) -> Check:
        return Check(function.__name__, stated(function), function, tuple(cases), simpler)

    return made


def stated(function: Function) -> str:
    """Returns the first paragraph of a function's docstring on one line."""
    return " ".join((function.__doc__ or "").partition("\n\n")[0].split())


def fail(message: str) -> NoReturn:
    """Says what is wrong with the component.

    Raises:
        Violation: Always.
    """
    raise Violation(message)


def require(condition: bool, message: str) -> None:
    """Raises Violation with the message unless the condition holds."""
    if not condition:
        fail(message)


def require_close(actual: Tensor, expected: Tensor, message: str, *, tolerance: float = 1e-5) -> None:
    """Requires two tensors to agree in shape and, within a tolerance, in all values.

    The tolerance is far above the rounding of float64, in which most checks compute, and just above that of
    float32, in which a component may compute inside; faults are of the size of the values themselves.
    """
    require(
        actual.shape == expected.shape,
        f"{message} (shape {tuple(actual.shape)} instead of {tuple(expected.shape)})",
    )
    if actual.numel() and not torch.allclose(actual, expected, atol=tolerance, rtol=tolerance):
        difference = (actual - expected).abs().max().item()
        fail(f"{message} (largest difference {difference:.3g})")


def require_finite(tensor: Tensor, message: str) -> None:
    """Requires that a tensor holds neither NaN nor infinity."""
    require(bool(tensor.isfinite().all()), message)
