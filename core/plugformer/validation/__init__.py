"""Whether a task can be trained: its components, each by itself and together, and its data.

Reading order: task, components, trial, pairs.
"""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.validation.task import validate, validate_model

__all__ = ["validate", "validate_model"]

_MODULES = {"validate": "task", "validate_model": "task"}

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__, _MODULES)
