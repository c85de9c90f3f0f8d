"""Hooks into the life of a run: who looks on, who takes part, and the observers that come along."""

from plugformer.hooks.specification import (
    Evaluation,
    Hooks,
    Run,
    TrainingHooks,
    Update,
    hookimpl,
    must_not_fail,
)

__all__ = ["Evaluation", "Hooks", "Run", "TrainingHooks", "Update", "hookimpl", "must_not_fail"]
