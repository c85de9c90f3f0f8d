"""One experiment: its settings, the objects that they name, and the specification of its model."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, cast

from plugformer.configuration.resolving import ResolvedTask, check_components
from plugformer.configuration.task import OWN, Component, ExtraSublayer, ModelSettings, Task, TrainingSettings
from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Architecture, Column, Data, Input, Level, TaskType, View
from plugformer.interfaces.spec import LayerSpec, ModelSpec, PartSpec, StackSpec
from plugformer.registry import Kind, Registry
from plugformer.registry.discovery import label
from plugformer.registry.options import checked_options
from plugformer.yaml_tree import EMPTY, Finding, KeyPath, Problem, Tree, dotted, placed, report

__all__ = ["Experiment"]

ALL_KINDS = frozenset(Kind)


@dataclass(frozen=True, eq=False)
class Experiment:
    """The settings of a task with its type and architecture: what is decided before any data is read.

    Attributes:
        task: The settings. The options of all components are complete, their paths absolute.
        registry: The installed components, those of local manifests and those of this session.
        task_type: The type of the task. Its `state` is set once, by `prepare` or from a run.
        architecture: The architecture of the model.
        kinds: The kinds of components that are needed and were checked.
        rows: Examples in memory by split, which the data component `memory` reads; empty if it reads files.
        tree: The merged settings as they were written, to locate problems.
    """

    task: Task
    registry: Registry
    task_type: TaskType
    architecture: Architecture
    kinds: Collection[Kind] = ALL_KINDS
    rows: dict[str, Any] = field(default_factory=dict)
    tree: Tree = EMPTY
    _created: dict[int, tuple[Component, Any]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, task: Task, registry: Registry, tree: Tree = EMPTY, **attributes: Any) -> Self:
        """Returns the experiment of settings whose options are complete.

        Raises:
            ConfigurationError: The task type or the architecture refuses its options.
        """
        created = []
        for kind, path, block in (
            (Kind.TASK_TYPE, ("type",), task.type),
            (Kind.ARCHITECTURE, ("model", "architecture"), task.model.architecture),
        ):
            with placed(tree.origin(path), path):
                created.append(registry.create(kind, block.name, **block.options))
        task_type, architecture = created
        return cls(task, registry, task_type, architecture, tree=tree, **attributes)

    @classmethod
    def from_resolved(
        cls,
        resolved: ResolvedTask,
        kinds: Collection[Kind] = ALL_KINDS,
        rows: Mapping[str, Any] | None = None,
    ) -> Self:
        """Imports the components of some kinds that a task names, and creates its type and architecture.

        Raises:
            ConfigurationError: A component cannot be imported, or an option is unknown, missing, of the wrong
                type or out of range; all problems, each with its place.
        """
        checked = check_components(resolved, kinds)
        return cls.of(checked.task, checked.registry, checked.tree, kinds=kinds, rows=dict(rows or {}))

    def with_task(self, task: Task) -> Self:
        """Returns this experiment with other settings of the same task type and architecture."""
        return replace(self, task=task)

    @cached_property
    def spec(self) -> ModelSpec:
        """The specification of the model, with initial values only if `kinds` has `Kind.INITIALIZATION`."""
        spec = model_spec(
            self.task.model,
            self.registry,
            self.architecture,
            self.task_type.level,
            inputs=self.task_type.inputs,
            training=self.task.training,
            fresh=Kind.INITIALIZATION in self.kinds,
            token_dropout=self.task_type.token_dropout,
        )
        view = self.task_type.view
        stacks = {name: replace(each, view=view(each.view)) for name, each in spec.stacks.items()}
        return replace(spec, stacks=stacks, shared_vocabulary=self.task.tokenizer.shared)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the task type, with the kinds that they name."""
        columns, create = self.task_type.columns, self.registry.create
        return tuple(replace(column, kind=create(Kind.COLUMN, column.holds)) for column in columns)

    @cached_property
    def data(self) -> Data:
        """The data component, with the rows in memory if there are any."""
        data: Data = self.create(Kind.DATA, self.task.data)
        if self.rows:
            data.rows = self.rows
        return data

    @cached_property
    def baselines(self) -> tuple[Component, ...]:
        """What the model is compared with: the baselines that the task names, or else its type."""
        named = self.task.evaluation.baselines
        usual = (Component(name=name) for name in self.task_type.baselines)
        return tuple(usual if named is None else named)

    def create(self, kind: Kind, block: Component) -> Any:
        """Returns a component of the task. The same block gives the same object.

        Components of the model are created by `build`, tokenizers by `Processor`, and hooks by each training.

        Raises:
            RegistryError: It is not installed, or its constructor raises an error.
        """
        if id(block) not in self._created:
            component = self.registry.create(kind, block.name, **block.options)
            self._created[id(block)] = block, component  # the block stays alive, so that its id stays unique
        return self._created[id(block)][1]

    def raise_for(self, findings: Iterable[Finding]) -> Self:
        """Returns this experiment, or raises ConfigurationError for all findings with their places."""
        problems = [Problem(self.tree.origin(path), path, message) for path, message in findings]
        if problems:
            raise ConfigurationError(report(problems))
        return self


def by_split(data: Any) -> dict[str, Any]:
    """Returns rows in memory by split; those without a split are `train`, and nothing is None.

    Args:
        data: Rows, or a mapping of rows by split; see `plugformer.train`.

    Raises:
        DataError: It has rows by other names.
    """
    if data is None:
        return {}
    names = [str(name) for name in data] if isinstance(data, Mapping) else []
    splits = names and all(name == "validation" or name.startswith("test") for name in names)
    if splits or "train" in names:
        return dict(data)
    if names and all(isinstance(rows, Mapping) or _has_rows(rows) for rows in data.values()):
        raise DataError(f"the rows have the splits {', '.join(names)}, and no `train`")
    return {"train": data}


def _has_rows(values: Any) -> bool:
    """Returns whether values are a data frame, or begin with a dictionary, as no column does."""
    return hasattr(values, "itertuples") or isinstance(next(iter(values), None), Mapping)


NO_POSITION = Component(name="none")

SIZES = {"width", "heads", "ffn_width", "max_length", "dropout", "attention_dropout", "final_norm"}
"""The settings that a specification has under the same name."""

Choose = Callable[..., PartSpec]
"""Returns the part at the first of some paths at which settings name one: `choose(kind, *paths)`."""


def model_spec(
    settings: ModelSettings,
    registry: Registry,
    architecture: Architecture,
    level: Level,
    *,
    inputs: tuple[Input, ...] = (Input(),),
    training: TrainingSettings = TrainingSettings(),  # noqa: B008 (frozen)
    fresh: bool = True,
    token_dropout: float = 0.0,
) -> ModelSpec:
    """Returns the specification of a model whose head predicts from a level.

    `token_dropout` holds unless the settings say it.

    Without `fresh` the model gets no initial values, and the component that draws them is not loaded.

    Raises:
        ConfigurationError: An option is unknown, missing, of the wrong type or out of range.
        RegistryError: A component cannot be loaded.
    """
    parts: dict[KeyPath, PartSpec] = {}

    def choose(kind: Kind, *paths: KeyPath) -> PartSpec:
        named = ((path, block) for path in paths if (block := _named_at(settings, path)) is not None)
        origin, block = next(named, (paths[0], NO_POSITION))  # others than positions always have a default
        if origin not in parts:
            component, name = registry.load(kind, block.name), label(registry.find(kind, block.name))
            parts[origin] = PartSpec(component, checked_options(component, block.options, name), name, origin)
        return parts[origin]

    views = dict(architecture.stacks)
    return ModelSpec(
        architecture=architecture,
        level=level,
        inputs=inputs,
        stacks={name: _stack(name, settings, views, choose) for name in views},
        head=choose(Kind.HEAD, ("model", "head")),
        shared_embeddings=settings.embeddings.shared,
        tied_embeddings=settings.embeddings.tied,
        scaled_embeddings=settings.embeddings.scaled,
        token_dropout=token_dropout if settings.token_dropout is None else settings.token_dropout,
        recompute=training.gradient_checkpointing,
        initialization=choose(Kind.INITIALIZATION, ("model", "initialization")) if fresh else None,
        parametrization=choose(Kind.PARAMETRIZATION, ("model", "parametrization")) if fresh else None,
        seed=training.replicate_seed,
        **settings.model_dump(include=SIZES),
    )


def _named_at(settings: ModelSettings, path: KeyPath) -> Component | None:
    """Returns the component at a path of a task, such as `("model", "encoder", "per_layer", 0, "norm")`."""
    value: Any = settings
    for key in path[1:]:
        value = value.get(key) if isinstance(value, dict) else getattr(value, str(key), None)
    return cast("Component | None", value)


def _stack(name: str, settings: ModelSettings, views: Mapping[str, View], choose: Choose) -> StackSpec:
    """Returns the specification of a stack. Settings of a layer precede those of its stack and the model."""
    path, overrides = ("model", name), getattr(settings, name)
    depths = {stack: getattr(settings, stack).layers or settings.layers for stack in views}
    cross = (*path, "cross_attention") if name == "decoder" and "encoder" in views else ()

    def paths(part: str, layer: int | None = None) -> list[KeyPath]:
        own: list[KeyPath] = [] if layer is None else [(*path, "per_layer", layer, part)]
        return [*own, (*path, part), ("model", part)]

    def layer_spec(layer: int) -> LayerSpec:
        attention = paths("attention", layer)
        sublayers = {"attention": choose(Kind.ATTENTION, *attention)}
        if cross:
            sublayers["cross_attention"] = choose(Kind.ATTENTION, (*cross, "attention"), *attention)
        sublayers["feed_forward"] = choose(Kind.FEED_FORWARD, *paths("feed_forward", layer))
        outer = ("model",) if overrides.sublayers is None else path
        for name, extra in (
            settings.sublayers if overrides.sublayers is None else overrides.sublayers
        ).items():
            kind = Kind.FEED_FORWARD if extra.attention is None else Kind.ATTENTION
            where = (*outer, "sublayers", name)
            sublayers = inserted(sublayers, name, choose(kind, (*where, kind.value)), extra, where)
        return LayerSpec(
            sublayers=sublayers,
            norm=choose(Kind.NORM, *paths("norm", layer)),
            residual=choose(Kind.RESIDUAL, *paths("residual", layer)),
        )

    return StackSpec(
        name=name,
        view=views[name],
        layers=tuple(map(layer_spec, range(depths[name]))),
        position=choose(Kind.POSITION, *paths("position")),
        norm=choose(Kind.NORM, *paths("norm")),
        cross_position=choose(Kind.POSITION, (*cross, "position")) if cross else None,
        read_by=depths.get("decoder", 0) if name == "encoder" else 0,
    )


def inserted(
    sublayers: Mapping[str, PartSpec], name: str, part: PartSpec, extra: ExtraSublayer, where: KeyPath
) -> dict[str, PartSpec]:
    """Returns sublayers with a further one at its place.

    Raises:
        ConfigurationError: There is no sublayer at the place that it names, or one of its own name.
    """
    names = [*sublayers]
    beside = extra.before or extra.after or names[-1]
    if name in {*sublayers, *OWN, "residual", "dropout"} or beside not in names:
        key = dotted(where)
        problem = f"{key}: a layer has {', '.join(names)}, and nothing called {beside!r}"
        if beside in names:
            problem = f"{key}: a layer has something called {name!r} already; choose another name"
        raise ConfigurationError(problem)
    place = names.index(beside) + (extra.before is None)
    pairs = [*sublayers.items()]
    return dict([*pairs[:place], (name, part), *pairs[place:]])
