"""One experiment: its settings, and the objects that they name, each created once and passed down."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from plugformer.configuration.model_spec import model_spec
from plugformer.configuration.resolving import ResolvedTask, check_components
from plugformer.configuration.structure import origin_of
from plugformer.configuration.task import Component, Task
from plugformer.errors import ConfigurationError, PlugformerError
from plugformer.interfaces import Architecture, Data, ModelSpec, TaskType
from plugformer.kinds import Kind
from plugformer.problems import Finding, Origin, Problem, report
from plugformer.registry import Registry
from plugformer.yaml_tree import MappingNode

__all__ = ["Experiment"]

ALL_KINDS = frozenset(Kind)


@dataclass(frozen=True, eq=False)
class Experiment:
    """The settings of a task with its type and architecture.

    An experiment holds what is decided before any data is read. The processor holds what is learned from the
    data, and the model what is trained.

    Attributes:
        task: The settings. The options of all components are complete, their paths absolute.
        registry: The installed components, those of local manifests and those of this session.
        task_type: The type of the task. Its `state` is set once, by `prepare` or from a run.
        architecture: The architecture of the model.
        kinds: The kinds of components that are needed and were checked.
        rows: Examples in memory by split, which the data component `memory` reads; empty if it reads files.
        notices: What the user should know about how the settings were merged.
        tree: The merged settings as they were written, to locate problems.
    """

    task: Task
    registry: Registry
    task_type: TaskType
    architecture: Architecture
    kinds: Collection[Kind] = ALL_KINDS
    rows: dict[str, Any] = field(default_factory=dict)
    notices: Sequence[str] = ()
    tree: MappingNode | None = None
    _created: dict[int, tuple[Component, Any]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, task: Task, registry: Registry, **attributes: Any) -> Self:
        """Returns the experiment of settings whose options are complete.

        Raises:
            ConfigurationError: The task type or the architecture refuses its options; with both places.
        """
        tree: MappingNode | None = attributes.get("tree")
        created, problems = [], []
        for kind, path, block in (
            (Kind.TASK_TYPE, ("type",), task.type),
            (Kind.ARCHITECTURE, ("model", "architecture"), task.model.architecture),
        ):
            try:
                created.append(registry.create(kind, block.name, **block.options))
            except PlugformerError as error:
                problems.append(Problem(None if tree is None else origin_of(tree, path), path, str(error)))
        if problems:
            raise ConfigurationError(report(problems))
        return cls(task, registry, *created, **attributes)

    @classmethod
    def from_resolved(
        cls,
        resolved: ResolvedTask,
        kinds: Collection[Kind] = ALL_KINDS,
        rows: Mapping[str, Any] | None = None,
    ) -> Self:
        """Imports the components that a task names, checks their options and creates type and architecture.

        Args:
            resolved: The task; its structure has been checked.
            kinds: The kinds of components that are needed. The settings of others stay as they were written.
            rows: Examples in memory, by split.

        Raises:
            ConfigurationError: A component cannot be imported, or an option is unknown, missing, of the wrong
                type or out of range; all problems, each with its place.
        """
        checked = check_components(resolved, kinds)
        return cls.of(
            checked.task,
            checked.registry,
            kinds=kinds,
            rows=dict(rows or {}),
            notices=checked.notices,
            tree=checked.tree,
        )

    def with_task(self, task: Task) -> Self:
        """Returns this experiment with other settings of the same task type and architecture."""
        return replace(self, task=task)

    @cached_property
    def spec(self) -> ModelSpec:
        """The specification of the model.

        Without `Kind.INITIALIZATION` among `kinds`, the model gets no initial values.

        Raises:
            RegistryError: A part cannot be loaded.
        """
        return model_spec(
            self.task.model,
            self.registry,
            self.architecture,
            self.task_type.level,
            training=self.task.training,
            fresh=Kind.INITIALIZATION in self.kinds,
        )

    @cached_property
    def data(self) -> Data:
        """The data component, with the rows in memory if there are any.

        Raises:
            RegistryError: It is not installed, or its constructor raises an error.
        """
        data: Data = self.create(Kind.DATA, self.task.data)
        if self.rows:
            data.rows = self.rows
        return data

    def create(self, kind: Kind, block: Component) -> Any:
        """Returns a component of the task. The same block gives the same object.

        Components of the model are created by `build`, and tokenizers by `Processor`; hooks have a state of
        one training.

        Args:
            kind: The kind of the component.
            block: Its name and options in the task.

        Raises:
            RegistryError: It is not installed, or its constructor raises an error.
        """
        if id(block) not in self._created:
            component = self.registry.create(kind, block.name, **block.options)
            self._created[id(block)] = block, component  # the block stays alive, so that its id stays unique
        return self._created[id(block)][1]

    def raise_for(self, findings: Iterable[Finding]) -> Self:
        """Returns this experiment if there are no findings.

        Args:
            findings: The path of each problem, and a sentence; a hint may follow on lines of its own.

        Raises:
            ConfigurationError: There are findings; all together, each with its place.
        """
        problems = [Problem(self.locate(path), path, message) for path, message in findings]
        if problems:
            raise ConfigurationError(report(problems))
        return self

    def locate(self, path: tuple[str | int, ...]) -> Origin | None:
        """Returns where the value at a path was written; None if nobody wrote it."""
        return None if self.tree is None else origin_of(self.tree, path)


def by_split(data: Any) -> dict[str, Any]:
    """Returns rows in memory by split; those without a split are `train`, and nothing is None.

    Args:
        data: Rows, or a mapping of rows by split; see `plugformer.train`.
    """
    if data is None:
        return {}
    return dict(data) if isinstance(data, Mapping) and "train" in data else {"train": data}
