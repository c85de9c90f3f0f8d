"""What a family of models is: which settings its configuration means, and which parameters its weights."""

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer.errors import ConfigurationError
from plugformer_transformers.weights import Conversion, Vocabulary, Weight, table_rows

Config = Mapping[str, Any]
"""What a `config.json` says."""

ACTIVATIONS: Mapping[str, Mapping[str, Any]] = {
    "gelu": {"name": "gelu", "approximate": "none", "bias": True},
    "gelu_new": {"name": "gelu", "approximate": "tanh", "bias": True},
    "relu": {"name": "relu", "bias": True},
}
"""Feed-forward networks by the names that Transformers has for their activations."""

_LAYER = re.compile(r"(?<=\.layers\.)\d+")


class Family(ABC):
    """A family of models of Transformers, by its `model_type`. One description serves both directions.

    Attributes:
        model_type: The name in `config.json`.
        architecture: The architecture here.
        stack: The stack that `layers` counts the layers of.
        base: What the names of weights begin with in models that have a head.
        classes: The class of Transformers for each head here, by the head's name; first the model's own head.
        needs: The values that keys of `config.json` may have; others mean something else. The first is meant
            if the key is missing.
        special: Where the special tokens PADDING, UNKNOWN, BEGIN and END come from: names of tokens, of which
            the first that a model has counts.
        prefix: The name of a token in front of every text, besides BEGIN.
        tied: Whether the output projection is the embedding if `config.json` does not say.
        sizes: The keys of `width`, `heads`, `layers` and `ffn_width`.
        longest: The key of the longest sequence, and what it is if `config.json` does not say.
        activation: The key of the activation.
        activations: The feed-forward network that each activation means, first that of a missing key.
        names: The name there of each module or parameter here; `*` is the number of a layer.
        offset: Rows in front of a table of positions that nobody reads.
    """

    model_type: ClassVar[str]
    architecture: ClassVar[str]
    stack: ClassVar[str] = "encoder"
    base: ClassVar[str]
    classes: ClassVar[Mapping[str, str]]
    needs: ClassVar[Mapping[str, Sequence[Any]]] = {}
    special: ClassVar[Sequence[Sequence[str]]]
    prefix: ClassVar[str | None] = None
    tied: ClassVar[bool] = True
    sizes: ClassVar[Mapping[str, str]]
    longest: ClassVar[tuple[str, int]]
    activation: ClassVar[str]
    activations: ClassVar[Mapping[str, Mapping[str, Any]]]
    names: ClassVar[Mapping[str, str]]
    offset: ClassVar[int] = 0

    @abstractmethod
    def parts(self, config: Config) -> dict[str, Any]:
        """Returns further settings of `model`; they replace those that follow from the attributes."""

    @abstractmethod
    def options(self, model: ModelSettings) -> dict[str, Any]:
        """Returns further keys of the nearest configuration, which `parts` and `conversions` read."""

    def heads(self, config: Config) -> Mapping[str, Mapping[str, Any]]:  # noqa: ARG002 (BERT's depend on it)
        """Returns the options that heads with a counterpart need, by the names of the heads."""
        return {name: {"bias": False} for name in self.classes}

    def conversions(self, name: str, config: Config) -> tuple[Conversion, ...]:  # noqa: ARG002 (by default none)
        """Returns how a parameter differs there, besides the numbers of tokens and the length of tables."""
        return ()

    def settings(self, config: Config) -> dict[str, Any]:
        """Returns the settings of `model` that follow from a configuration."""
        return {
            **{ours: config.get(theirs) for ours, theirs in self.sizes.items()},
            "embeddings": {"tied": config.get("tie_word_embeddings", self.tied), "scaled": False},
            "feed_forward": self.activations[config.get(self.activation, next(iter(self.activations)))],
            **self.parts(config),
        }

    def defaults(self, config: Config) -> dict[str, Any]:
        """Returns settings of `model` that fit a configuration, and that a task may replace."""
        name, options = next(iter(self.heads(config).items()))
        return {
            "architecture": self.architecture,
            "head": {"name": name, **options},
            "max_length": config.get(*self.longest),
            "token_dropout": 0.0,
        }

    def config(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the configuration that is nearest to some settings: `settings` says what it means."""
        values = {"layers": layers(model, self.stack)} | {
            name: getattr(model, name) for name in ("width", "heads", "ffn_width")
        }
        network = {"name": model.feed_forward.name, **model.feed_forward.options}
        fitting = (name for name, block in self.activations.items() if block.items() <= network.items())
        return {
            **{theirs: values[ours] for ours, theirs in self.sizes.items()},
            self.longest[0]: model.max_length,
            self.activation: next(fitting, next(iter(self.activations))),
            "tie_word_embeddings": model.embeddings.tied,
            **self.options(model),
        }

    def check(self, config: Config) -> None:
        """Raises ConfigurationError if a configuration asks for something that has no counterpart here."""
        for key, values in {**self.needs, self.activation: [*self.activations]}.items():
            if config.get(key, values[0]) not in values:
                expected = " or ".join(map(repr, values))
                raise ConfigurationError(
                    f"{self.model_type}: {key} is {config[key]!r}, which has no counterpart here; "
                    f"expected {expected}"
                )

    def weights(
        self, config: Config, tokens: Vocabulary, rows: int, parameters: Iterable[str]
    ) -> Iterator[Weight]:
        """Yields the weights that have a counterpart among some parameters.

        Args:
            config: The configuration.
            tokens: The numbers that tokens have there.
            rows: Longest sequence here: the rows of tables of positions.
            parameters: Names of parameters here.
        """
        found: dict[str, list[str]] = defaultdict(list)
        for name in parameters:
            if (theirs := self._theirs(name)) is not None:
                found[theirs].append(name)
        for theirs, names in found.items():
            general: tuple[Conversion | Vocabulary, ...] = ()
            if is_vocabulary(names[0]):
                general = (tokens,)
            elif names[0].endswith(".position.table.weight"):
                general = (table_rows(self.offset, rows),)
            yield Weight(theirs, tuple(names), (*self.conversions(names[0], config), *general))

    def _theirs(self, name: str) -> str | None:
        """Returns the name there of a parameter, if it has one."""
        number = _LAYER.search(name)
        general = _LAYER.sub("*", name)
        module, _, kind = general.rpartition(".")
        theirs = self.names.get(general)
        if theirs is None and module in self.names:
            theirs = f"{self.names[module]}.{kind}"
        return theirs.replace("*", number[0]) if theirs and number else theirs


def is_vocabulary(name: str) -> bool:
    """Returns whether a parameter has a row for each token."""
    return name.endswith(".embedding.weight") or name in ("head.weight", "head.bias")


def option(component: Any, name: str, default: Any) -> Any:
    """Returns an option of a component in settings, if it has one of this name."""
    return component.options.get(name, default)


def layers(model: ModelSettings, stack: str) -> int:
    """Returns the number of layers of a stack."""
    return getattr(model, stack).layers or model.layers


def inside(ours: str, theirs: str, names: Mapping[str, str]) -> dict[str, str]:
    """Returns names of modules inside two others."""
    return {f"{ours}.{one}": f"{theirs}.{other}" for one, other in names.items()}
