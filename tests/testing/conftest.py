"""Faulty components, and the check that must catch each."""

import re
from collections.abc import Callable

import pytest

from plugformer_testing import Status
from plugformer_testing.runner import find_check, outcome
from plugformer_testing.subject import Subject

Caught = Callable[..., None]


@pytest.fixture
def assert_caught() -> Caught:
    """Asserts that a check fails on a component, with a message that names the fault (a pattern)."""

    def assert_caught(mutant: type, check: str, words: str, **given: object) -> None:
        subject = Subject.of(mutant, **given)
        ended = outcome(subject, find_check(subject.kind, check))
        assert ended.status is Status.FAILED, f"{mutant.__name__} is not caught by {check}: {ended}"
        assert re.search(words, str(ended)), str(ended)

    return assert_caught
