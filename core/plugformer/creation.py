"""The two components that say what a task is, created."""

from plugformer.configuration.task import Task
from plugformer.interfaces import Architecture, TaskType
from plugformer.kinds import Kind
from plugformer.registry import Registry


def create_task_type(task: Task, registry: Registry, learned: object = None) -> TaskType:
    """Returns a task's type.

    Args:
        task: Fully resolved.
        registry: Knows the component.
        learned: What it has learned of the training examples, if it has.
    """
    task_type: TaskType = registry.create(Kind.TASK_TYPE, task.type.name, **task.type.options)
    task_type.state = learned
    return task_type


def create_architecture(task: Task, registry: Registry) -> Architecture:
    """Returns a task's architecture."""
    block = task.model.architecture
    architecture: Architecture = registry.create(Kind.ARCHITECTURE, block.name, **block.options)
    return architecture
