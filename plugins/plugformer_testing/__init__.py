"""The contract tests: what every component of a kind must do.

In a notebook, a script or a test::

    from plugformer_testing import check

    assert check(MyAttention)

In the tests of a plugin, with one pytest case for each check::

    from plugformer_testing import contract_tests

    test_contract = contract_tests("attention/differential")
"""

from plugformer_testing.report import CheckReport, Outcome, Status
from plugformer_testing.runner import check, contract_tests

__all__ = ["CheckReport", "Outcome", "Status", "check", "contract_tests"]
