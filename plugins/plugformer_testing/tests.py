"""The contract suite inside pytest: one line in a plugin's tests, one test for each check."""

from collections.abc import Callable, Mapping
from typing import Any

from plugformer.interfaces import ModelContext
from plugformer_testing.result import Status
from plugformer_testing.runner import checks_of, find_check, outcome
from plugformer_testing.subject import Subject


def contract_tests(
    component: str | type,
    *,
    options: Mapping[str, Any] | None = None,
    model: ModelContext | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> Callable[[str], None]:
    """Returns a pytest test with one case for each check of a component's kind.

    A failing check fails with what is wrong and the smallest failing case; a skip and an expected failure
    carry their reasons.

    Example:
        `test_contract = contract_tests("attention/gqa", options={"kv_heads": 2})`

    Args:
        component: `kind/name` of an installed one, or a class that implements a kind's interface.
        options: Its own options; needed if one has no default.
        model: Sizes of the model, where the component cannot work with those that the suite chooses.
        expected_failures: Names of checks that are known to fail, each with the reason.

    Raises:
        RegistryError: The component is unknown, in conflict or quarantined, or cannot be imported.
        ValueError: An expected failure names no check.
    """
    import pytest  # `plugformer check` does without it

    subject = Subject.of(component)
    subject = subject.given(options=options, model=model, expected_failures=expected_failures)
    for name in subject.expected_failures:
        find_check(subject.kind, name)

    @pytest.mark.parametrize("check", [check.name for check in checks_of(subject.kind)])
    def test_contract(check: str) -> None:
        ended = outcome(subject, find_check(subject.kind, check))
        if ended.status is Status.SKIPPED:
            pytest.skip(ended.message)
        if ended.status is Status.EXPECTED_FAILURE:
            pytest.xfail(ended.message)
        if ended.status is Status.FAILED:
            pytest.fail(f"{subject.path}: {ended}", pytrace=False)

    return test_contract
