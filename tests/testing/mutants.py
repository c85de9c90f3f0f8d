"""Faulty components, and the test that each check catches one."""

from collections.abc import Callable, Mapping
from functools import wraps

import pytest
from tests.testing.outcomes import failure

from plugformer.registry import Kind
from plugformer_testing import module, widths
from plugformer_testing.checks import checks_of
from plugformer_testing.contract import Check

_VALUES = (*vars(module).values(), *vars(widths).values())
OF_MODULES = [value for value in _VALUES if isinstance(value, Check)]
"""The checks that several kinds of torch modules share."""
SHARED = [check for check in OF_MODULES if not check.kinds]
"""Those that all share."""


def instead(name: str, base: type, **members: object) -> type:
    """Returns a subclass with other members."""
    return type(name, (base,), members)


def after(name: str, base: type, **changes: Callable[..., object]) -> type:
    """Returns a subclass whose methods return what functions make of them: (self, result, *arguments)."""

    def changed(method, change):
        @wraps(method)
        def call(self, *arguments, **options):
            return change(self, method(self, *arguments, **options), *arguments)

        return call

    return instead(name, base, **{each: changed(getattr(base, each), changes[each]) for each in changes})


def before(name: str, base: type, **changes: Callable[..., object]) -> type:
    """Returns a subclass whose methods take another first argument: what functions make of (self, first)."""

    def changed(method, change):
        @wraps(method)
        def call(self, first, *arguments, **options):
            return method(self, change(self, first), *arguments, **options)

        return call

    return instead(name, base, **{each: changed(getattr(base, each), changes[each]) for each in changes})


def fault_test(
    faulty: Mapping[str, type], *kinds: Kind, raising: tuple[str, ...] = ()
) -> Callable[[str], None]:
    """Returns a test with a case for each check of some kinds: it catches the faulty component of its name.

    Checks that all torch modules share are tested with norms, in `test_module_mutants.py`; those that some
    share, with attentions, and with other kinds of which there are faulty ones.
    """
    shared = SHARED if Kind.ATTENTION in kinds else OF_MODULES
    names = {check.name for kind in kinds for check in checks_of(kind) if check not in shared}

    @pytest.mark.parametrize("name", sorted(names | faulty.keys()))
    def test_every_check_catches_a_fault(name: str) -> None:
        failure(faulty[name], name, raises=faulty[name].__name__ in raising)

    return test_every_check_catches_a_fault
