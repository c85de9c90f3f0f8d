"""The component fulfills the contract of its kind; add a test of its formula."""

from collections.abc import Callable

from plugformer_testing import parametrize_with_checks


@parametrize_with_checks("new_kind/new_component")
def test_contract(check: Callable[[], None]) -> None:
    check()
