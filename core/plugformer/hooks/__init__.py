"""Hooks of a run: observers, and components that take part in training."""

from plugformer.hooks.manager import HOOKS, TRAINING_HOOKS, HookManager
from plugformer.hooks.specification import (
    EvaluationResult,
    Hooks,
    Run,
    SampleOutput,
    TrainingHooks,
    Update,
    hookimpl,
    must_not_fail,
)

__all__ = [
    "HOOKS",
    "TRAINING_HOOKS",
    "EvaluationResult",
    "HookManager",
    "Hooks",
    "Run",
    "SampleOutput",
    "TrainingHooks",
    "Update",
    "hookimpl",
    "must_not_fail",
]
