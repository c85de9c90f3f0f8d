"""Whether a task can be trained: its components, each by itself and together, and its data.

Reading order: task, trial.
"""

from plugformer.validation.task import validate, validate_model

__all__ = ["validate", "validate_model"]
