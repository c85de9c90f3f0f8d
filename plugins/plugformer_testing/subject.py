"""What a contract is checked against: a component's class with its options, and where it comes from."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.interfaces import HeadContext, LayerContext, ModelContext, ResidualContext
from plugformer.registry import Entry, Kind, Registry, checked_options, interface_of, options_model
from plugformer_testing.check import fail
from plugformer_testing.probes import RootMeanSquare, SharedState, perturbed

T = TypeVar("T")

MODEL = ModelContext(width=24, heads=4, ffn_width=20, max_length=16)
"""Sizes that the checks use unless they try others: small, and no two of them equal."""

ENCODER, DECODER = LayerContext(), LayerContext(stack="decoder", causal=True)
CROSS = LayerContext(stack="decoder", layer=1, layers=2, cross=True)
PLACES = (
    ENCODER,
    LayerContext(layer=3, layers=4),
    DECODER,
    LayerContext(stack="decoder", layer=11, layers=12, causal=True),
    CROSS,
)
"""First and last layers of stacks of different depth, causal or not, and cross-attention."""

_DEEP = 6
"""Layers of a stack in which one may read the state of another."""

OUTPUTS = 7
"""Classes that a head predicts."""

SUBLAYERS = ("attention", "cross_attention", "feed_forward")
"""What a residual connection joins."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A component under test.

    Attributes:
        entry: Its entry in a manifest; of a class that is not registered, one that names the class.
        component: Its class.
        options: Its own options, as a task file would give them.
        model: The model that it becomes a part of: sizes, and a place that it may refuse for another.
        expected_failures: Names of checks that its author knows to fail, with the reasons.
        registry: Has the components that it is tried with; what is installed if None.
        fixed: The place that it is constructed for; None for the first that it serves.
    """

    entry: Entry
    component: type
    options: Mapping[str, Any]
    model: ModelContext
    expected_failures: Mapping[str, str]
    registry: Registry | None
    fixed: LayerContext | None = None
    _memo: dict[Hashable, Any] = field(default_factory=dict, init=False)

    @classmethod
    def of(
        cls,
        component: str | type,
        registry: Registry | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        model: ModelContext | None = None,
        expected_failures: Mapping[str, str] | None = None,
    ) -> "Subject":
        """Returns an installed component, or a class that need not be installed.

        Args:
            component: `kind/name` or `kind/distribution:name`, or a class that implements a kind's interface.
            registry: Where to look; what is installed if None.
            options: Its own options.
            model: The model that it becomes a part of; `MODEL` if None.
            expected_failures: What its author says besides what the manifest does.

        Raises:
            RegistryError: It is unknown, in conflict or quarantined, or cannot be imported; or the class
                implements no kind's interface.
        """
        if isinstance(component, type):
            kind = next((each for each in Kind if issubclass(component, interface_of(each))), None)
            target = f"{component.__module__}:{component.__qualname__}"
            if kind is None:
                raise RegistryError(
                    f"{target.replace(':', '.')} implements no kind of component\n"
                    "derive it from one of the interfaces in plugformer.interfaces"
                )
            entry = Entry(kind, component.__name__, target, distribution="local")
        else:
            path, slash, name = component.partition("/")
            if not slash:
                raise RegistryError(
                    f"{component!r} is not a component\nwrite KIND/NAME, such as attention/mha"
                )
            registry = registry or Registry.discover()
            entry, component = registry.find(path, name), registry.load(path, name)
        declared = {**dict(entry.expected_failures), **(expected_failures or {})}
        return cls(entry, component, dict(options or {}), model or MODEL, declared, registry)

    def at(self, place: LayerContext) -> "Subject":
        """Returns the same component, to be constructed for a place."""
        return replace(self, fixed=place)

    def serving(self, *places: LayerContext) -> list["Subject"]:
        """Returns the component at those of the places that it serves.

        An attention whose layers share states is there again, in a layer that reads another's.

        Raises:
            ConfigurationError: It refuses them all.
        """
        served = [self.at(place) for place in places if self._serves(place)]
        if not served:
            self.at(places[-1]).create()  # raises its refusal
        if self.kind is Kind.ATTENTION:
            served += [reader for each in served for reader in self._readers(each.place)]
        return served

    def _readers(self, place: LayerContext) -> list["Subject"]:
        """Returns the attention in the first layer that reads the state of one below, if any does."""

        def find() -> list[Subject]:
            higher = (replace(place, layer=layer, layers=_DEEP) for layer in range(1, _DEEP))
            served = [self.at(each) for each in higher if self._serves(each)]
            with torch.device("meta"):
                return [each for each in served if isinstance(each.create(), SharedState)]

        return self.once(("readers", place), find)[:1]

    @property
    def place(self) -> LayerContext:
        """The place that the component is constructed for; the model's if it refuses all."""
        if self.fixed is not None:
            return self.fixed
        places = (self.model.place, *PLACES)
        return next((place for place in places if self._serves(place)), self.model.place)

    def _serves(self, place: LayerContext) -> bool:
        """Returns whether it does not refuse a place; other errors are for whoever constructs it."""

        def constructed() -> bool:
            try:
                with torch.device("meta"):
                    self.at(place).create()
            except Exception as error:
                return not isinstance(error, ConfigurationError)
            return True

        return self.once(("serves", place), constructed)

    def create(self, **sizes: Any) -> Any:
        """Constructs the component.

        Args:
            **sizes: Fields of its context that differ.

        Raises:
            ConfigurationError: It refuses its options or the sizes.
        """
        made = self._made(sizes)
        if self.kind is not Kind.ATTENTION or made.reads_layer is None:
            return made
        below, place = made.reads_layer, self.place
        if not 0 <= below < place.layer:
            fail(f"in {place} it reads the state of layer {below}, expected a layer below")
        owner = self.at(replace(place, layer=below))._made(sizes)
        if owner.reads_layer is not None:
            fail(f"in {place} it reads the state of layer {below}, which has none of its own")
        return SharedState(owner, made)

    def _made(self, sizes: Mapping[str, Any]) -> Any:
        options = checked_options(self.component, self.options, self.entry.name)
        if not issubclass(interface_of(self.kind), nn.Module):
            return self.component(**options)
        told = {**vars(self.model), "place": self.place, **sizes}
        if self.kind is Kind.HEAD:
            return self.component(HeadContext(**{"outputs": OUTPUTS, **told}), **options)
        if self.kind is Kind.RESIDUAL:
            joined = {"sublayers": SUBLAYERS, "norm": partial(RootMeanSquare, told["width"])}
            return self.component(ResidualContext(**{**joined, **told}), **options)
        return self.component(ModelContext(**told), **options)

    def perturbed(self, dtype: torch.dtype = torch.float64, **sizes: Any) -> Any:
        """Constructs a module in evaluation mode, its parameters moved away from their initial values."""
        return perturbed(self.create(**sizes), dtype)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns `make()`, computed the first time only: what is slow and several checks share."""
        if key not in self._memo:
            self._memo[key] = make()
        return cast("T", self._memo[key])

    @property
    def missing_options(self) -> list[str]:
        """Options that have no default and are not given."""
        fields = options_model(self.component).model_fields
        required = [option.alias or name for name, option in fields.items() if option.is_required()]
        return [name for name in required if name not in self.options]

    def tokens(self, *shape: int) -> Float[Tensor, "*shape width"]:
        """Returns random hidden states."""
        return torch.randn(*shape, self.model.width, dtype=torch.float64)

    @property
    def kind(self) -> Kind:
        """Its kind."""
        return Kind(self.entry.kind)
