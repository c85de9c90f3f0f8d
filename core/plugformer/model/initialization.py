"""Initial values: every module draws from a stream of its own, so that parts that two models share agree."""

from collections import Counter
from collections.abc import Callable

import torch
from torch import nn

from plugformer.errors import RegistryError
from plugformer.generators import random_stream
from plugformer.interfaces import Attention, FeedForward, Initialization, ParameterContext
from plugformer.model.layer import Layer


def initialize(model: nn.Module, seed: int, scheme: Initialization) -> None:
    """Draws all initial values of a model; each depends on the seed and the parameter's path alone.

    After every module has drawn its own, the scheme is asked parameter by parameter; then the gains of the
    layers' residual connections are applied.

    Raises:
        RegistryError: As of `draw_own_values`.
    """
    draw_own_values(model, seed)
    counts, gains = _on_residual_paths(model)
    modules = dict(model.named_modules())
    for path, parameter in model.named_parameters():
        parent, _, name = path.rpartition(".")
        about = ParameterContext(
            name=name, path=path, module=modules[parent], residual_layers=counts.get(path, 0)
        )
        with random_stream(seed, path), torch.no_grad():
            scheme.draw(parameter, about)
            if path in gains:
                parameter.mul_(gains[path])


def draw_own_values(model: nn.Module, seed: int) -> None:
    """Lets every module that holds parameters draw them in `reset_parameters`, children before parents.

    Raises:
        RegistryError: A module holds parameters, but neither it nor a parent has `reset_parameters`.
    """
    refuse_hidden_values(model)
    for path, module in reversed(list(model.named_modules())):
        reset: Callable[[], object] | None = getattr(module, "reset_parameters", None)
        if reset is not None:
            with random_stream(seed, path):
                reset()


def residual_matrices(part: Attention | FeedForward) -> dict[str, bool]:
    """Returns the matrices on a component's residual path by name, and whether each is of the last map."""
    return {
        name: part.residual_path[-1] in name.split(".")
        for name, parameter in part.named_parameters()
        if parameter.dim() > 1 and not set(part.residual_path).isdisjoint(name.split("."))
    }


def _on_residual_paths(model: nn.Module) -> tuple[dict[str, int], dict[str, float]]:
    """Returns, by the path of a parameter, how many sublayers add to its stream if it does, and its gain."""
    modules = model.named_modules(remove_duplicate=False)  # a layer that occurs again adds again
    layers = {path: module for path, module in modules if isinstance(module, Layer)}
    sublayers = Counter(path.rpartition(".")[0] for path, layer in layers.items() for _ in layer.parts)
    counts, gains = {}, {}
    for path, layer in layers.items():
        for name, part in layer.parts.items():
            for parameter, last in residual_matrices(part).items():
                full = f"{path}.{name}.{parameter}"
                if last:
                    counts[full] = sublayers[path.rpartition(".")[0]]
                if layer.residual.gain != 1:
                    gains[full] = layer.residual.gain
    return counts, gains


def refuse_hidden_values(module: nn.Module, path: str = "model") -> None:
    """Raises RegistryError if a module holds parameters that no `reset_parameters` would draw."""
    if hasattr(module, "reset_parameters"):
        return
    own = [name for name, _ in module.named_parameters(recurse=False)]
    if own:
        raise RegistryError(
            f"{path} ({type(module).__module__}:{type(module).__qualname__}) holds the parameters "
            f"{', '.join(own)} but has no reset_parameters(): define it and draw their initial values there, "
            "so that they depend on the seed and the parameter's path alone"
        )
    for name, child in module.named_children():
        refuse_hidden_values(child, f"{path}.{name}")
