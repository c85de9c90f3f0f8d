"""Tests of faulty components: a check catches each of them, and each check catches one."""

from collections.abc import Callable, Mapping
from functools import wraps

import pytest

from plugformer.registry import Kind
from plugformer_testing import Status, check, module
from plugformer_testing.contract import Check
from plugformer_testing.runner import checks_of
from plugformer_testing.subject import Subject

Mutants = Mapping[str, tuple[type, ...]]
"""Faulty components by the check that must catch them."""

SHARED = [value for value in vars(module).values() if isinstance(value, Check) and not value.kinds]
"""The checks that all torch modules share."""


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


def assert_caught(mutant: type, name: str, *, raises: bool = False) -> None:
    """Asserts that a check fails on a component, with an exception only where the mutant may raise one."""
    (outcome,) = check(mutant, only=name).outcomes
    assert outcome.status is Status.FAILED, f"{mutant.__name__} is not caught by {outcome}"
    assert raises or not outcome.traceback, f"{outcome}\n{outcome.traceback}"


def mutant_tests(
    mutants: Mutants, *kinds: Kind, raising: tuple[str, ...] = ()
) -> tuple[Callable[..., None], Callable[[Kind], None]]:
    """Returns two tests: each mutant is caught, and each check of some kinds catches one.

    Checks that all torch modules share are tested with norms, in `test_module_mutants.py`.
    """
    pairs = [(mutant, name) for name, group in mutants.items() for mutant in group]

    @pytest.mark.parametrize(("mutant", "name"), pairs)
    def test_is_caught(mutant: type, name: str) -> None:
        assert_caught(mutant, name, raises=mutant.__name__ in raising)

    @pytest.mark.parametrize("kind", kinds)
    def test_every_check_catches_one(kind: Kind) -> None:
        expected = {check.name for check in checks_of(kind) if check not in SHARED}
        assert {name for mutant, name in pairs if Subject.of(mutant).kind is kind} == expected

    return test_is_caught, test_every_check_catches_one
