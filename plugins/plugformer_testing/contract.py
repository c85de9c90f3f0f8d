"""A contract is a list of checks: a sentence, a function that tries it, and cases to try it on."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.registry import Kind
from plugformer.reproducibility import random_stream


@dataclass(frozen=True)
class Check:
    """One sentence of a contract, as a function that a subject passes, fails or skips as a test of pytest.

    Attributes:
        function: Takes a Subject and, if there are cases, one of them. Its name is that of the check, its
            docstring the sentence.
        cases: What it is tried on, the smallest first; None alone if there is nothing to choose.
        kinds: The kinds of component that it holds for; none if for all kinds of its module.
        given: Returns what the function takes instead, made of the subject and the case.
    """

    function: Callable[..., None]
    cases: tuple[Any, ...] = (None,)
    kinds: tuple[Kind, ...] = ()
    given: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.function.__name__

    def __call__(self, subject: Any) -> None:
        """Tries the cases in turn. The first that fails is named; a check is skipped if no case applies.

        The caller's random numbers and warnings are not affected.
        """
        __tracebackhide__ = True
        threads, reasons = torch.get_num_threads(), []
        torch.set_num_threads(1)  # the tensors are tiny, and waking threads takes longer than computing
        try:
            with random_stream(0, self.name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for case in self.cases:
                    try:
                        self._try(subject, case)
                    except pytest.skip.Exception as reason:
                        reasons.append(str(reason.msg))
        finally:
            torch.set_num_threads(threads)
        if len(reasons) == len(self.cases):
            pytest.skip(reasons[0])

    def _try(self, subject: Any, case: Any) -> None:
        __tracebackhide__ = True
        arguments = (subject,) if case is None else (subject, case)
        shown = ascii(case)[:80] if isinstance(case, str) else case
        try:
            self.function(*((self.given(*arguments),) if self.given else arguments))
        except ConfigurationError as refusal:
            pytest.skip(f"the component refuses it: {'; '.join(str(refusal).splitlines())}")
        except (pytest.fail.Exception, RegistryError) as fault:  # the core says what a component breaks
            where = "" if case is None else f" [smallest case: {shown}]"
            raise pytest.fail.Exception(f"{fault}{where}", pytrace=False) from None
        except Exception as error:
            if case is not None:
                error.add_note(f"smallest case: {shown}")
            raise


def contract_check(
    *kinds: Kind, cases: Iterable[Any] = (None,), given: Callable[..., Any] | None = None
) -> Callable[..., Check]:
    """Turns a function into a check."""
    return lambda function: Check(function, tuple(cases), kinds, given)
