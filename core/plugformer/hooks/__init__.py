"""Hooks into the life of a run: who looks on, who takes part, and the observers that come along."""

from typing import TYPE_CHECKING

from plugformer.hooks.specification import (
    Comparison,
    Evaluation,
    Hooks,
    Run,
    Sample,
    TrainingHooks,
    Update,
    hookimpl,
    must_not_fail,
)
from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.hooks.manager import HOOKS, TRAINING_HOOKS, HookManager

__all__ = [
    "HOOKS",
    "TRAINING_HOOKS",
    "Comparison",
    "Evaluation",
    "HookManager",
    "Hooks",
    "Run",
    "Sample",
    "TrainingHooks",
    "Update",
    "hookimpl",
    "must_not_fail",
]

_MODULES = {"HOOKS": "manager", "TRAINING_HOOKS": "manager", "HookManager": "manager"}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__, _MODULES)
