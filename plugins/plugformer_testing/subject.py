"""What a contract is tried on: the class of a component, its options, and its place in a small model."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from plugformer import load
from plugformer.configuration import options_model
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.interfaces import CAUSAL, HeadContext, Input, Level, ModelContext, Place, ResidualContext
from plugformer.registry import Entry, Kind, Registry, interface_of
from plugformer.registry.options import checked_options
from plugformer.runs import TrainedModel
from plugformer_testing import require
from plugformer_testing.probes import RootMeanSquare, SharedState, perturbed

T = TypeVar("T")

MODEL = ModelContext(width=24, heads=4, ffn_width=20, max_length=16)
"""Sizes that the checks use unless they try others: small, and no two of them equal."""

ENCODER, DECODER = Place(), Place(stack="decoder", view=CAUSAL)
CROSS = Place(stack="decoder", layer=1, layers=2, cross=True)
PLACES = (
    *(ENCODER, Place(layer=3, layers=4)),
    *(DECODER, Place(stack="decoder", layer=11, layers=12, view=CAUSAL), CROSS),
)
"""First and last layers of stacks of different depth, causal or not, and cross-attention."""

_DEEP = 6  # number of layers in which the first one that reads the state of another is looked for
OUTPUTS = 7  # classes that a head predicts
CHOICE = (Input("question"), Input("candidates", many=True))
PAIR = (Input("first"), Input("second"))
SUBLAYERS = ("attention", "cross_attention", "feed_forward")  # what a residual connection joins


@dataclass(frozen=True, eq=False)
class Subject:
    """A component under test, with its options, the sizes of a model, and failures that are expected.

    It is constructed for the place that is fixed, or for the first that it does not refuse.
    """

    entry: Entry
    component: type
    options: Mapping[str, Any]
    model: ModelContext
    expected_failures: Mapping[str, str]
    registry: Registry
    run: TrainedModel | None = None
    fixed: Place | None = None
    _memo: dict[Hashable, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        component: str | type,
        registry: Registry | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        model: ModelContext | None = None,
        expected_failures: Mapping[str, str] | None = None,
        run: str | Path | None = None,
    ) -> "Subject":
        """Returns a subject for `kind/name`, `kind/distribution:name` or a class."""
        registry = registry or Registry.discover()
        if isinstance(component, type):
            target = f"{component.__module__}:{component.__qualname__}"
            kind = next((kind for kind in Kind if issubclass(component, interface_of(kind))), None)
            if kind is None:
                advice = "derive it from one of the interfaces in plugformer.interfaces"
                raise RegistryError(f"{target.replace(':', '.')} is not a component\n{advice}")
            entry = Entry(kind, component.__name__, target, distribution="local")
        else:
            path, _, name = component.partition("/")
            entry, component = registry.find(path, name), registry.load(path, name)
        expected = {**dict(entry.expected_failures), **(expected_failures or {})}
        if run is not None and entry.kind != Kind.CALLBACK:
            raise ConfigurationError(
                f"a run is for the checks of a callback, not of {entry.kind}/{entry.name}"
            )
        trained = None if run is None else load(run, registry, device="cpu")
        return cls(entry, component, dict(options or {}), model or MODEL, expected, registry, trained)

    @property
    def kind(self) -> Kind:
        """Its kind."""
        return Kind(self.entry.kind)

    @property
    def missing_options(self) -> list[str]:
        """Options that have no default and are not given."""
        fields = options_model(self.component).model_fields
        required = [option.alias or name for name, option in fields.items() if option.is_required()]
        return [name for name in required if name not in self.options]

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns `make()`, computed only once: for slow values that checks only read."""
        if key not in self._memo:
            self._memo[key] = make()
        return cast("T", self._memo[key])

    def at(self, place: Place) -> "Subject":
        """Returns the same component, to be constructed for a place."""
        return replace(self, fixed=place)

    @property
    def place(self) -> Place:
        """The place that the component is constructed for; the model's if it refuses all."""
        if self.fixed is not None:
            return self.fixed
        return next((place for place in (self.model.place, *PLACES) if self._serves(place)), self.model.place)

    def serving(self, *places: Place) -> list["Subject"]:
        """Returns the component at those of the places that it does not refuse, or raises its refusal.

        An attention whose layers share states is also there in the first layer that reads another's state.
        """
        served = [self.at(place) for place in places if self._serves(place)]
        if not served:
            self.at(places[-1]).create()  # raises its refusal
        for subject in [*served] if self.kind is Kind.ATTENTION else []:
            higher = (replace(subject.place, layer=layer, layers=_DEEP) for layer in range(1, _DEEP))
            served += [self.at(place) for place in higher if self._serves(place) is SharedState][:1]
        return served

    def _serves(self, place: Place) -> type | None:
        """Returns the class of what serves a place, or None if it refuses; other errors are met later."""

        def constructed() -> type | None:
            try:
                with torch.device("meta"):
                    return type(self.at(place).create())
            except ConfigurationError:
                return None
            except Exception:
                return SharedState

        return self.once(("serves", place), constructed)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs of a head: at level `vector` a question with candidates, or two texts if it refuses."""
        if Level.VECTOR not in getattr(self.component, "levels", ()):
            return (Input(),)

        def served() -> tuple[Input, ...]:
            options = checked_options(self.component, self.options, self.entry.name)
            try:
                self.component(HeadContext(**vars(self.model), outputs=OUTPUTS, inputs=CHOICE), **options)
            except ConfigurationError:
                return PAIR
            return CHOICE

        return self.once("inputs", served)

    def create(self, **sizes: Any) -> Any:
        """Constructs the component, which may refuse; `sizes` are fields of its context that differ."""
        made = self._construct(sizes)
        if self.kind is not Kind.ATTENTION or made.reads_layer is None:
            return made
        below, place = made.reads_layer, self.place
        what = f"in {place} it reads what layer {below} has cached"
        require.that(0 <= below < place.layer, f"{what}, expected a layer below")
        owner = self.at(replace(place, layer=below))._construct(sizes)
        require.that(owner.reads_layer is None, f"{what}, which has none of its own")
        return SharedState(owner, made)

    def _construct(self, sizes: Mapping[str, Any]) -> Any:
        options = checked_options(self.component, self.options, self.entry.name)
        if not issubclass(interface_of(self.kind), nn.Module):
            return self.component(**options)
        context = {**vars(self.model), "place": self.place, **sizes}
        if self.kind is Kind.HEAD:
            sizes = {"outputs": OUTPUTS, "inputs": self.inputs, **context}
            return self.component(HeadContext(**sizes), **options)
        if self.kind is Kind.RESIDUAL:
            joined = {"sublayers": SUBLAYERS, "norm": partial(RootMeanSquare, context["width"])}
            return self.component(ResidualContext(**{**joined, **context}), **options)
        made = self.component(ModelContext(**context), **options)
        if self.kind is Kind.ATTENTION and not made.follows(view := self.place.view):
            raise ConfigurationError(f"it does not follow {view}")  # as a model refuses it
        return made

    def perturbed(self, dtype: torch.dtype = torch.float64, **sizes: Any) -> Any:
        """Constructs a module in evaluation mode, its parameters moved away from their initial values."""
        return perturbed(self.create(**sizes), dtype)

    def tokens(self, *shape: int) -> Tensor:
        """Returns random hidden states, (*shape, width)."""
        return torch.randn(*shape, self.model.width, dtype=torch.float64)
