"""Task configuration: from YAML files and --set to checked settings; every mistake with its place."""

from plugformer.configuration.components import check_components
from plugformer.configuration.resolved import ResolvedTask
from plugformer.configuration.resolving import resolve, resolve_changed, validate, validate_model
from plugformer.configuration.saving import dump
from plugformer.configuration.schema import schema
from plugformer.configuration.task import Component, Task

__all__ = [
    "Component",
    "ResolvedTask",
    "Task",
    "check_components",
    "dump",
    "resolve",
    "resolve_changed",
    "schema",
    "validate",
    "validate_model",
]
