"""`plugformer check`: what every component of a kind must keep, checked and counted.

`plugformer check` runs it; a plugin's own tests run it in one line::

    from plugformer_testing import contract_tests

    test_contract = contract_tests("attention/differential")
"""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer_testing.result import Outcome, Report, Status
    from plugformer_testing.runner import contract_tests, run

__all__ = ["Outcome", "Report", "Status", "contract_tests", "run"]

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__)
