"""Whether a task can be trained: its components, each by itself and together, and its data.

Reading order: task, trial, pairs.
"""

from plugformer.compatibility import fitting, measures, reads, serves
from plugformer.configuration.model_spec import model_spec
from plugformer.validation.task import validate, validate_model

__all__ = ["fitting", "measures", "model_spec", "reads", "serves", "validate", "validate_model"]
