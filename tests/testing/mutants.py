"""What is tested of faulty components: each is caught by a check, and each check catches one."""

import re
from collections.abc import Callable, Sequence

import pytest

from plugformer.kinds import Kind
from plugformer_testing import Status
from plugformer_testing.runner import checks_in, checks_of, find_check, outcome
from plugformer_testing.subject import Subject

Mutant = tuple[type, str, str]
"""A faulty component, the check that must catch it, and a pattern of what the check says."""


SHARED = [check for check in checks_in("module") if not check.kinds]
"""The checks that all torch modules share."""


def assert_caught(mutant: type, check: str, words: str) -> None:
    """Asserts that a check fails on a component, with a message that names the fault."""
    subject = Subject.of(mutant)
    ended = outcome(subject, find_check(subject.kind, check))
    assert ended.status is Status.FAILED, f"{mutant.__name__} is not caught by {check}: {ended}"
    assert re.search(words, str(ended)), str(ended)


def mutant_tests(
    mutants: Sequence[Mutant], *kinds: Kind
) -> tuple[Callable[..., None], Callable[[Kind], None]]:
    """Returns two tests: each mutant is caught, and each check of some kinds catches one.

    Those that all torch modules share are shown on norms, in `test_module_mutants.py`.
    """

    @pytest.mark.parametrize(("mutant", "check", "words"), mutants)
    def test_is_caught(mutant: type, check: str, words: str) -> None:
        assert_caught(mutant, check, words)

    @pytest.mark.parametrize("kind", kinds)
    def test_every_check_catches_one(kind: Kind) -> None:
        expected = {check.name for check in checks_of(kind) if check not in SHARED}
        assert {check for mutant, check, _ in mutants if Subject.of(mutant).kind is kind} == expected

    return test_is_caught, test_every_check_catches_one
