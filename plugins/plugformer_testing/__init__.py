"""The contract tests: what every component of a kind must do."""

from plugformer_testing.checks import check, parametrize_with_checks

__all__ = ["check", "parametrize_with_checks"]
