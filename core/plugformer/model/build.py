"""From a model's specification to a model with initial values."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from plugformer.errors import ConfigurationError, PlugformerError, RegistryError, described, out_of_memory
from plugformer.interfaces import (
    BIDIRECTIONAL,
    Attention,
    Head,
    HeadContext,
    Initialization,
    Model,
    ModelContext,
    Place,
    PositionalEncoding,
    ResidualContext,
)
from plugformer.interfaces.spec import ModelSpec, PartSpec, Sizes, StackSpec
from plugformer.model.decoder import Decoder
from plugformer.model.encoder import Encoder, TokenEmbedding
from plugformer.model.layer import Layer
from plugformer.reproducibility import random_stream, warm_up_mkl


def build(spec: ModelSpec, sizes: Sizes) -> Model:
    """Returns the model of a specification, with initial values that depend on its seed alone.

    Without an initialization, modules only draw their own values.

    Raises:
        ConfigurationError: A component refuses its options or the model's sizes.
        RegistryError: A component's constructor fails.
    """
    warm_up_mkl()
    with float32_default():
        builder = Builder(spec)
        with random_stream(spec.seed, "constructors"):  # constructors draw values that are replaced below
            model = spec.architecture.build(builder, sizes, spec.level)
        parts = {id(component): part for component, part in builder.parts}
        modules = model.named_modules()
        model.parts = {path: parts[id(module)] for path, module in modules if id(module) in parts}
        model.spec, model.sizes = spec, sizes
        if spec.initialization is None:
            draw_own_values(model, spec.seed)
        else:
            initialize(model, spec.seed, make(spec.initialization))
    return model


def make(part: PartSpec, *context: ModelContext) -> Any:
    """Returns a component.

    Raises:
        ConfigurationError: It is an attention or a residual connection that does not follow its stack's view.
        RegistryError: The constructor raises no PlugformerError, or no `reset_parameters` draws parameters.
    """
    try:
        component = part.make(*context, **part.options)
        if isinstance(component, nn.Module):
            refuse_hidden_values(component, part.label)
        view = context[0].place.view if context else BIDIRECTIONAL
        if isinstance(component, Attention) and not component.follows(view):
            raise ConfigurationError(f"{part.label} cannot follow {view}\nchoose another attention here")
        if getattr(component, "takes", "all") == "by sequence" and view != BIDIRECTIONAL:
            raise ConfigurationError(f"{part.label} chooses tokens by sequence, also those that {view} hides")
        return component
    except (Exception, SystemExit) as error:
        if isinstance(error, PlugformerError) or out_of_memory(error):
            raise
        raise RegistryError(f"{part.label}: constructing it failed: {described(error)}") from error


@contextmanager
def float32_default() -> Iterator[None]:
    """A context in which float32 is the default, so that all parameters have it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Builder:
    """Makes the embeddings, stacks and head that an architecture puts together.

    Attributes:
        spec: What the model consists of.
        parts: The components made so far, each with its part of the specification.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.parts: list[tuple[nn.Module, PartSpec]] = []

    def embedding(self, vocabulary: int, *, tied: bool) -> TokenEmbedding:
        """Returns a token embedding; `tied` if the output projection shares its weight."""
        spec = self.spec
        return TokenEmbedding(
            vocabulary, spec.width, scaled=spec.scaled_embeddings, tied=tied, token_dropout=spec.token_dropout
        )

    def encoder(self, embedding: TokenEmbedding) -> Encoder:
        """Returns the encoder; its `layers` may be put into another order, some of them several times."""
        return Encoder(**self._stack("encoder", embedding))

    def decoder(self, embedding: TokenEmbedding) -> Decoder:
        """Returns the decoder."""
        stack = self.spec.stacks["decoder"]
        part = stack.cross_position
        position = PositionalEncoding() if part is None else self._part(part, stack.place(cross=True))
        decoder = Decoder(cross_position=position, **self._stack("decoder", embedding))
        decoder.keeps_weights = "cross_attention" in getattr(self.spec.head.make, "reads", ())
        return decoder

    def head(self, outputs: int, embedding: TokenEmbedding) -> Head:
        """Returns the head above the last stack; it shares the embedding's weight if they are tied."""
        spec = self.spec
        *_, last = spec.stacks.values()
        shared = vars(spec.context(last.place(len(last.layers))))
        shared |= {"inputs": spec.inputs, "shared_vocabulary": spec.shared_vocabulary}
        tied = embedding.weight if spec.tied_embeddings else None
        head: Head = self.make(spec.head, HeadContext(**shared, outputs=outputs, tied=tied))
        offered = {"source"} if "encoder" in spec.stacks else set()
        offered |= {"memory", "cross_attention"} if len(spec.stacks) == 2 else set()
        if missing := sorted(head.reads - offered):
            chosen = "an encoder" if missing == ["source"] else "an encoder with a decoder"
            raise ConfigurationError(
                f"{spec.head.label} reads {' and '.join(missing)}, which "
                f"{type(spec.architecture).__name__} does not have; choose {chosen}"
            )
        return head

    def make(self, part: PartSpec, context: ModelContext, sublayer: str = "") -> Any:
        """Returns a component, and records which part it is; `sublayer` is its name in a layer."""
        component = make(part, context)
        if isinstance(component, Attention) and component.reads_layer is not None:
            self._refuse_other_states(part, context.place, component.reads_layer, sublayer)
        self.parts.append((component, part))
        return component

    def _refuse_other_states(self, part: PartSpec, place: Place, read: int, sublayer: str) -> None:
        """Raises ConfigurationError if an attention reads no layer below, or one with another attention."""
        problem, layers = "", self.spec.stacks[place.stack].layers
        if not 0 <= read < place.layer:
            problem = "expected a layer below\nits author must correct `reads_layer`"
        elif layers[read].sublayers[sublayer] != part:
            problem = "which has another attention or other options; give both the same attention"
        if problem:
            owner = f"layer {read} of the {place.stack}"
            raise ConfigurationError(f"{part.label} in {place} reads the state of {owner}, {problem}")

    def _part(self, part: PartSpec, place: Place, sublayer: str = "") -> Any:
        return self.make(part, self.spec.context(place), sublayer)

    def _stack(self, name: str, embedding: TokenEmbedding) -> dict[str, Any]:
        """Returns the arguments that encoders and decoders share."""
        stack, has_norm = self.spec.stacks[name], self.spec.final_norm
        position = self._part(stack.position, stack.place())
        layers = self._layers(stack)
        has_norm = layers[-1].residual.final_norm if has_norm is None else has_norm
        norm = self._part(stack.norm, stack.place(len(stack.layers))) if has_norm else nn.Identity()
        shared = {"view": stack.view, "dropout": self.spec.dropout, "recompute": self.spec.recompute}
        return {"embedding": embedding, "position": position, "layers": layers, "final_norm": norm, **shared}

    def _layers(self, stack: StackSpec) -> list[Layer]:
        """Returns the layers; raises ConfigurationError if one reads a state of some tokens only."""
        layers = [self._layer(stack, number) for number in range(len(stack.layers))]
        for number, layer in enumerate(layers):
            for name, read in layer.reads_layers.items():
                if not layer.residual.takes == layers[read].residual.takes == "all":
                    reader = f"{stack.layers[number].sublayers[name].label} in {stack.place(number)}"
                    raise ConfigurationError(
                        f"{reader} reads the state of layer {read} of the {stack.name}, but a residual "
                        "connection there takes some tokens only; choose another one"
                    )
        return layers

    def _layer(self, stack: StackSpec, number: int) -> Layer:
        layer, place = stack.layers[number], stack.place(number)
        parts = {
            name: self._part(part, stack.place(number, cross=name == "cross_attention"), name)
            for name, part in layer.sublayers.items()
        }
        norm, shared = partial(self._part, layer.norm, place), vars(self.spec.context(place))
        context = ResidualContext(**shared, sublayers=tuple(parts), norm=norm)
        return Layer(sublayers=parts, residual=self.make(layer.residual, context), dropout=self.spec.dropout)


def initialize(model: nn.Module, seed: int, scheme: Initialization) -> None:
    """Draws all initial values of a model; each depends on the seed and the parameter's path alone.

    Every module draws its own values. Then the scheme draws each parameter, and the gain of the layer's
    residual connection multiplies it.
    """
    draw_own_values(model, seed)
    counts, gains = on_residual_paths(model)
    modules = dict(model.named_modules())
    for path, parameter in model.named_parameters():
        module = modules[path.rpartition(".")[0]]
        with random_stream(seed, path), torch.no_grad():
            scheme.draw(parameter, path, module, counts.get(path, 0))
            if path in gains:
                parameter.mul_(gains[path])


def draw_own_values(model: nn.Module, seed: int) -> None:
    """Lets every module that holds parameters draw them in `reset_parameters`, children before parents."""
    refuse_hidden_values(model)
    for path, module in reversed(list(model.named_modules())):
        reset: Callable[[], object] | None = getattr(module, "reset_parameters", None)
        if reset is not None:
            with random_stream(seed, path):
                reset()


def on_residual_paths(model: nn.Module) -> tuple[dict[str, int], dict[str, float]]:
    """Returns, by the path of a parameter, how many sublayers add to its stream if it does, and its gain."""
    modules = model.named_modules(remove_duplicate=False)  # a layer that occurs again adds again
    layers = {path: module for path, module in modules if isinstance(module, Layer)}
    sublayers = Counter(path.rpartition(".")[0] for path, layer in layers.items() for _ in layer.parts)
    counts: dict[str, int] = {}
    gains: dict[str, float] = {}
    for path, layer in layers.items():
        for name, part in layer.parts.items():
            matrices = {
                f"{path}.{name}.{parameter}": parameter.split(".")
                for parameter, values in part.named_parameters()
                if values.dim() > 1 and not set(part.residual_path).isdisjoint(parameter.split("."))
            }
            last = [full for full, names in matrices.items() if part.residual_path[-1] in names]
            counts.update(dict.fromkeys(last, sublayers[path.rpartition(".")[0]]))
            if layer.residual.gain != 1:
                gains.update(dict.fromkeys(matrices, layer.residual.gain))
                if not last:
                    raise RegistryError(
                        f"{type(layer.residual).__name__} scales the initial values of the last map of "
                        f"{type(part).__name__}, which has no matrix called {part.residual_path[-1]!r}: name "
                        "its maps in `residual_path`"
                    )
    return counts, gains


def refuse_hidden_values(module: nn.Module, path: str = "model") -> None:
    """Raises RegistryError if a module holds parameters that no `reset_parameters` would draw."""
    if hasattr(module, "reset_parameters"):
        return
    names = [name for name, _ in module.named_parameters(recurse=False)]
    if names:
        raise RegistryError(
            f"{path} ({type(module).__module__}:{type(module).__qualname__}) holds the parameters "
            f"{', '.join(names)} but has no reset_parameters(), which draws their initial values"
        )
    for name, child in module.named_children():
        refuse_hidden_values(child, f"{path}.{name}")
