"""The contract tests: what every component of a kind must do."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer_testing.report import CheckReport, Outcome, Status
    from plugformer_testing.runner import check, contract_tests

__all__ = ["CheckReport", "Outcome", "Status", "check", "contract_tests"]

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__)
