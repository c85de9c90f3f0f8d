"""The family of Transformers that a model belongs to, or what keeps it from the nearest one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from plugformer.errors import ConfigurationError
from plugformer.registry import Kind
from plugformer.runs import TrainedModel
from plugformer_export.engine import further_sublayers, is_built_in, stack_problems, stated
from plugformer_transformers.families import FAMILIES
from plugformer_transformers.family import Config, Family

_SLOTS = {
    "position": Kind.POSITION,
    "attention": Kind.ATTENTION,
    "cross_attention": Kind.ATTENTION,
    "feed_forward": Kind.FEED_FORWARD,
    "residual": Kind.RESIDUAL,
}
"""Kinds of the parts that are no norms, by the last word of their paths."""


@dataclass(frozen=True)
class Fit:
    """How well a model fits a family.

    Attributes:
        family: The family.
        config: The nearest configuration.
        problems: What is different, each by part or setting; empty if it fits.
        class_name: The class of Transformers; empty if the head has none.
    """

    family: Family
    config: Config
    problems: list[str]
    class_name: str


def nearest_fit(trained: TrainedModel) -> Fit:
    """Returns the fit with the fewest problems, of the families with the model's architecture."""
    built = type(trained.experiment.architecture)
    config = {name: family.config(trained.task.model) for name, family in FAMILIES.items()}
    names = [
        name
        for name, family in FAMILIES.items()
        if built is trained.registry.load(Kind.ARCHITECTURE, f"plugformer:{family.architecture}")
    ]
    if not names:
        architecture = trained.task.model.architecture.name
        family = next(iter(FAMILIES.values()))
        return Fit(family, {}, [f"model.architecture: architecture {architecture!r}"], "")
    fits = [_fit(trained, FAMILIES[name], config[name]) for name in names]
    return min(fits, key=lambda fit: len(fit.problems))


def _fit(trained: TrainedModel, family: Family, config: Config) -> Fit:
    name = next((name for name in family.classes if is_built_in(trained, "head", Kind.HEAD, name)), "")
    try:
        family.check(config)
        found = [*_problems(trained, family, config, name)]
    except ConfigurationError as error:
        found = [str(error)]
    unique = list(dict.fromkeys(f"{problem} (nearest: {family.model_type})" for problem in found))
    return Fit(family, config, unique, family.classes.get(name, ""))


def _problems(trained: TrainedModel, family: Family, config: Config, head: str) -> Iterator[str]:
    """Yields what is different."""
    model = trained.model
    settings, defaults = family.settings(config), family.defaults(config)
    yield from stack_problems(trained)
    built: Any
    for name, built in model.stacks.items():
        last = isinstance(built.final_norm, nn.Identity)
        written = trained.task.model.final_norm is not None  # else the residual connection decides
        if written and last is (settings["residual"]["name"] == "pre"):
            yield f"model.final_norm: {str(not last).lower()} in the {name}"
    further = {name for stack in model.stacks.values() for name in further_sublayers(stack)}
    for path in model.parts:
        if path.rpartition(".")[2] not in further:
            yield from _part_problems(trained, path, settings)
    if not head:
        yield stated(trained, "head")
    elif different := _different(model.parts["head"].options, family.heads(config)[head]):
        yield f"{stated(trained, 'head')} with {different}"
    if head == defaults["head"]["name"]:
        for key, value in settings["embeddings"].items():
            found = getattr(trained.experiment.spec, f"{key}_embeddings")
            if found != value:
                yield f"model.embeddings.{key}: {str(found).lower()}"
    elif trained.experiment.spec.scaled_embeddings:
        yield "model.embeddings.scaled: true"


def _part_problems(trained: TrainedModel, path: str, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yields why one part is not what settings say."""
    slot = path.rpartition(".")[2]
    if slot in ("head", "cross_position"):
        return
    is_norm = ".norms." in path or slot == "final_norm"
    kind = Kind.NORM if is_norm else _SLOTS.get(slot, Kind.NORM)
    block = dict(settings[kind])
    if kind is Kind.ATTENTION:
        yield from _attention_problems(trained, path, block)
    elif not is_built_in(trained, path, kind, block.pop("name")):
        yield stated(trained, path)
    elif different := _different(trained.model.parts[path].options, block):
        yield f"{stated(trained, path)} with {different}"


def _attention_problems(trained: TrainedModel, path: str, block: Mapping[str, Any]) -> Iterator[str]:
    """Yields why an attention is not what settings say: one number of key-value heads has several names."""
    if not any(is_built_in(trained, path, Kind.ATTENTION, name) for name in ("mha", "gqa", "mqa")):
        yield stated(trained, path)
        return
    part: Any = trained.model.get_submodule(path)
    wanted = {"mha": part.heads, "mqa": 1}.get(block["name"], block.get("kv_heads"))
    if part.kv_heads != wanted:
        yield f"{stated(trained, path)} with {part.kv_heads} key-value heads"
    if different := _different(trained.model.parts[path].options, {"bias": block["bias"]}):
        yield f"{stated(trained, path)} with {different}"


def _different(options: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Returns the options that have other values than expected; a part decides by itself what is None."""
    found = {name: options.get(name) for name, value in expected.items() if options.get(name) != value}
    return ", ".join(f"{name} {value!r}" for name, value in found.items() if value is not None)
