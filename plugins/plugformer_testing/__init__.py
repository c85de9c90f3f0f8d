"""`plugformer check`: what every component of a kind must keep, checked and counted.

`plugformer check` runs it; a plugin's own tests run it in one line::

    from plugformer_testing import contract_tests

    test_contract = contract_tests("attention/differential")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plugformer_testing.result import Outcome, Report, Status
    from plugformer_testing.runner import contract_tests, run

__all__ = ["Outcome", "Report", "Status", "contract_tests", "run"]

_MODULES = {"contract_tests": "runner", "run": "runner"}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name

    def __getattr__(name: str) -> Any:
        """Imports a name when it is first used: `check --help` needs no torch."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'result')}"), name)
