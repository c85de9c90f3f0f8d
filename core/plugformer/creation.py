"""Models without a task, for training loops of your own."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from plugformer.configuration.overrides import read_dictionary
from plugformer.configuration.structure import check_settings
from plugformer.configuration.task import ModelSettings, TrainingSettings
from plugformer.distributed import chosen_device
from plugformer.errors import ConfigurationError
from plugformer.experiment import model_spec as spec_of_settings
from plugformer.interfaces import Architecture, Head, Level, Model
from plugformer.interfaces.spec import ModelSpec, Sizes
from plugformer.interfaces.tokenizer import SPECIAL_TOKENS
from plugformer.model import build
from plugformer.model.dry_run import dry_run, example_batch
from plugformer.registry import Kind, Registry
from plugformer.yaml_tree import Problem, Tree, report

Component = str | type | tuple[type, Mapping[str, Any]] | Mapping[str, Any]
"""A component by name, as `{"name": ..., **options}`, as a class, or as a class with its options."""

Classes = Mapping[str, Mapping[str, type]]
"""Classes of your own by kind and name."""

_HEADS = {
    Level.NEXT_TOKEN: "language_model",
    Level.TOKEN: "token_classifier",
    Level.SEQUENCE: "classifier",
}
"""The head of a model whose settings name none."""


def create_model(
    architecture: Component,
    *,
    vocabulary: int | Mapping[str, int],
    outputs: int | None = None,
    device: torch.device | str | None = None,
    **settings: Any,
) -> Model:
    """Returns a model with initial values, the same that a task with these settings has.

    Example:
        `model = create_model("decoder-only", vocabulary=14, width=64, layers=2, attention="gqa")`

    Args:
        architecture: The architecture.
        vocabulary: Number of tokens, the four special ones included; for two vocabularies, the numbers by
            `source` and `target`.
        outputs: Number of classes, or of numbers, that the head predicts; at level `next-token` the size of
            the target vocabulary.
        device: The device of the model; the CPU if None.
        **settings: All other arguments of `model_spec`, such as `seed`, `components` and `width`.

    Raises:
        ConfigurationError: A setting or an option is unknown or wrong; there is no such device; or parts do
            not fit together.
        RegistryError: A component is unknown, or its constructor fails.
    """
    place = None if device is None else chosen_device(device)
    spec = model_spec(architecture, **settings)
    spec = replace(spec, shared_vocabulary=not isinstance(vocabulary, Mapping))
    model = build(spec, _sizes(spec, vocabulary, outputs))
    return model if place is None else model.to(place)


def model_spec(
    architecture: Component,
    *,
    level: Level | str | None = None,
    seed: int = 1,
    components: Classes | None = None,
    **settings: Any,
) -> ModelSpec:
    """Returns the specification of a model, from which `plugformer.model.build` makes models.

    A component is a name (`"gqa"`), a name with options (`{"name": "gqa", "kv_heads": 2}`), a class, or a
    class with options (`(MyAttention, {"window": 8})`).

    Args:
        architecture: `encoder-decoder` or `decoder-only` to generate, `encoder-only` to label.
        level: `next-token`, `token` or `sequence`; if None, `next-token` where the architecture has it.
        seed: Seed of the initial values.
        components: Classes of your own by kind and name: `{"attention": {"mine": MyAttention}}`.
        **settings: The keys of `model` in a task file: width, heads, layers, ffn_width, dropout, position,
            attention, feed_forward, norm, residual, head, encoder, decoder and others. If `head` is not
            given, the level decides.

    Raises:
        ConfigurationError: A setting or an option is unknown or wrong; or parts do not fit together.
        RegistryError: A component is unknown, or its constructor fails.
    """
    known = Registry.discover().with_components(components or {})
    tree, registry = read_dictionary({"architecture": architecture, "head": None, **settings}, "model", known)
    written = tree.value
    block = check_settings(Tree(written | {"head": "-"}, {}), ModelSettings).architecture
    made: Architecture = registry.create(Kind.ARCHITECTURE, block.name, **block.options)
    chosen = _level(made, level, made.levels if written["head"] else _HEADS)
    head = written["head"] or _HEADS[chosen]
    checked = check_settings(Tree(written | {"head": head}, {}), ModelSettings)
    if checked.initialize_from is not None:
        raise ConfigurationError("initialize_from: a training loads weights; name them in a task")
    for stack in ("encoder", "decoder"):
        if stack not in dict(made.stacks) and (given := getattr(checked, stack)) != type(given)():
            raise ConfigurationError(f"{stack}: architecture {block.name!r} has none; take it out")
    training = check_settings(Tree({"seed": seed}, {}), TrainingSettings)
    spec = spec_of_settings(checked, registry, made, chosen, training=training)
    _refuse_misfits(spec)
    return spec


def _level(architecture: Architecture, level: Level | str | None, offered: Iterable[Level]) -> Level:
    known = sorted(architecture.levels.intersection(offered))
    if level is None and Level.NEXT_TOKEN in known:
        return Level.NEXT_TOKEN
    if level not in known:
        hint = "; vectors need a task, or a head of your own" * (level == Level.VECTOR)
        raise ConfigurationError(f"level: expected {' or '.join(known)}, found {level!r}{hint}")
    return Level(level)


def _sizes(spec: ModelSpec, vocabulary: int | Mapping[str, int], outputs: int | None) -> Sizes:
    if not isinstance(vocabulary, Mapping):
        vocabulary = dict.fromkeys(("source", "target"), int(vocabulary))
    if set(vocabulary) != {"source", "target"}:
        raise ConfigurationError(f"vocabulary: expected sizes of source and target, found {dict(vocabulary)}")
    if (least := min(vocabulary.values())) <= len(SPECIAL_TOKENS):
        expected = f"{len(SPECIAL_TOKENS) + 1} or more, the {len(SPECIAL_TOKENS)} special tokens included"
        raise ConfigurationError(f"vocabulary: expected {expected}; found {least}")
    if spec.shared_embeddings and vocabulary["source"] != vocabulary["target"]:
        raise ConfigurationError("embeddings: a shared embedding needs one vocabulary, found two sizes")
    if spec.level is Level.NEXT_TOKEN:
        outputs = vocabulary["target"]
    elif outputs is None:
        raise ConfigurationError(f"outputs: a model of level {spec.level} needs the number of outputs")
    elif outputs < 1:
        raise ConfigurationError(f"outputs: expected 1 or more, found {outputs}")
    return Sizes(vocabulary["source"], outputs)


def _refuse_misfits(spec: ModelSpec) -> None:
    """Raises ConfigurationError if parts do not fit together: see `dry_run`."""
    head = spec.head.make
    if isinstance(head, type) and issubclass(head, Head) and spec.level not in head.levels:
        expected = " or ".join(sorted(head.levels))
        raise ConfigurationError(f"head: {spec.head.label} predicts from {expected}, not {spec.level}")
    failures = dry_run(spec, Sizes(8, 8), example_batch(spec.architecture, spec.level))
    if failures:
        places = ((part.origin[1:] if part else (), message) for part, message in failures)
        raise ConfigurationError(report(Problem(None, path, message) for path, message in places))
