"""A contract is a list of checks: a sentence, a function that tries it, and cases to try it on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from plugformer.registry import Kind


class Violation(Exception):  # noqa: N818 (a contract is violated; the program has no error)
    """A component does not keep its contract. The message describes the fault."""


class NotApplicable(Exception):  # noqa: N818
    """A case or a whole check does not apply to this component. The message gives the reason."""


@dataclass(frozen=True)
class Check:
    """One sentence of a contract.

    Attributes:
        function: Takes a Subject and, if there are cases, one of them. It raises Violation or NotApplicable,
            or returns a note for the report. Its name is that of the check, its docstring the sentence.
        cases: What it is tried on, the smallest first; None alone if there is nothing to choose.
        kinds: The kinds of component that it holds for; none if for all kinds of its module.
        given: Returns what the function takes instead, made of the subject and the case.
    """

    function: Callable[..., str | None]
    cases: tuple[Any, ...] = (None,)
    kinds: tuple[Kind, ...] = ()
    given: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.function.__name__


def contract_check(
    cases: Iterable[Any] = (None,), *kinds: Kind, given: Callable[..., Any] | None = None
) -> Callable[..., Check]:
    """Turns a function into a check."""
    return lambda function: Check(function, tuple(cases), kinds, given)


def is_list_of_text(value: object) -> bool:
    """Returns whether a value is a list of text, such as words or names of labels."""
    return isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)
