"""What a family of models is: which settings its configuration means, and which parameters its weights."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from plugformer.configuration import ModelSettings
from plugformer.errors import ConfigurationError
from plugformer_transformers.weights import Step, Vocabulary, Weight

Config = Mapping[str, Any]
"""What a `config.json` says."""


class Family(ABC):
    """A family of models of Transformers, by its `model_type`. One description serves both directions.

    Attributes:
        model_type: The name in `config.json`.
        base: What the names of weights begin with in models that have a head.
        classes: The class of Transformers for each head here, by the head's name.
        needs: Values in `config.json`, of keys that mean something else with any other value.
        special: Where the special tokens PADDING, UNKNOWN, BEGIN and END come from: names of tokens, of which
            the first that a model has counts.
        prefix: The name of a token in front of every text, besides BEGIN.
        tied: Whether the output projection is the embedding if `config.json` does not say.
    """

    model_type: ClassVar[str]
    base: ClassVar[str]
    classes: ClassVar[Mapping[str, str]]
    needs: ClassVar[Mapping[str, Any]] = {}
    special: ClassVar[Sequence[Sequence[str]]]
    prefix: ClassVar[str | None] = None
    tied: ClassVar[bool] = True

    @abstractmethod
    def settings(self, config: Config) -> dict[str, Any]:
        """Returns the settings of `model` that follow from a configuration."""

    @abstractmethod
    def defaults(self, config: Config) -> dict[str, Any]:
        """Returns settings of `model` that fit a configuration, and that a task may replace."""

    @abstractmethod
    def config(self, model: ModelSettings) -> dict[str, Any]:
        """Returns the configuration that is nearest to some settings: `settings` says what it means."""

    def heads(self, config: Config) -> Mapping[str, Mapping[str, Any]]:  # noqa: ARG002 (BERT's depend on it)
        """Returns the options that heads with a counterpart need, by the names of the heads."""
        return {name: {"bias": False} for name in self.classes}

    @abstractmethod
    def weights(self, config: Config, tokens: Step, rows: int) -> Iterator[Weight]:
        """Yields the weights, those of heads included.

        Args:
            config: The configuration.
            tokens: From the numbers of tokens there to those here.
            rows: Longest sequence here: the rows of tables of positions.
        """

    def check(self, config: Config) -> None:
        """Raises ConfigurationError if a configuration asks for something that has no counterpart here."""
        for key, value in self.needs.items():
            if config.get(key, value) != value:
                raise ConfigurationError(
                    f"{self.model_type}: {key} is {config[key]!r}, which has no counterpart here; "
                    f"expected {value!r}"
                )

    def refuse_unknown(self, key: str, value: str, known: Mapping[str, Any]) -> None:
        """Raises ConfigurationError for an activation that has no counterpart here."""
        if value not in known:
            expected = " or ".join(map(repr, known))
            raise ConfigurationError(
                f"{self.model_type}: {key} is {value!r}, which has no counterpart here; expected {expected}"
            )

    def nearest_activation(
        self, model: ModelSettings, known: Mapping[str, Mapping[str, Any]], default: str
    ) -> str:
        """Returns the name of the activation that a network of some settings has, or else a default."""
        own = {"name": model.feed_forward.name, **model.feed_forward.options}
        return next((name for name, block in known.items() if block.items() <= own.items()), default)


def token_map(special: Sequence[int], size: int) -> Vocabulary:
    """Returns the map to a vocabulary of some size: here special tokens come first, then all others."""
    others = [number for number in range(size) if number not in special]
    return Vocabulary([*special, *others], size)


def option(component: Any, name: str, default: Any) -> Any:
    """Returns an option of a component in settings, if it has one of this name."""
    return component.options.get(name, default)


def layers(model: ModelSettings, stack: str) -> int:
    """Returns the number of layers of a stack."""
    return getattr(model, stack).layers or model.layers


def norm(theirs: str, ours: str, steps: tuple[Step, ...] = (), *, bias: bool = True) -> Iterator[Weight]:
    """Yields the weights of a norm, or of a linear map without changes."""
    for name in ("weight", "bias")[: 1 + bias]:
        yield Weight(f"{theirs}.{name}", (f"{ours}.{name}",), steps)


def linear(
    theirs: str,
    ours: str,
    *,
    bias: bool = True,
    inputs: tuple[Step, ...] = (),
    outputs: tuple[Step, ...] = (),
) -> Iterator[Weight]:
    """Yields matrix and bias of a linear map; steps of its outputs change both."""
    yield Weight(f"{theirs}.weight", (f"{ours}.weight",), (*inputs, *outputs))
    if bias:
        yield Weight(f"{theirs}.bias", (f"{ours}.bias",), outputs)
