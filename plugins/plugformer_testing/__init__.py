"""The contract tests: what every component of a kind must do."""

from plugformer_testing.report import CheckReport, Outcome, Status
from plugformer_testing.runner import check, contract_tests

__all__ = ["CheckReport", "Outcome", "Status", "check", "contract_tests"]
