"""What a parametrization makes of a model: its initial values and its learning rates."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import (
    Attention,
    Head,
    Model,
    ParameterSize,
    Parametrization,
    PositionalEncoding,
    Role,
    Updates,
)
from plugformer.interfaces.spec import ModelSpec, Sizes
from plugformer.model.build import build as build_standard
from plugformer.model.build import make, on_residual_paths
from plugformer.model.encoder import TokenEmbedding
from plugformer.yaml_tree import placed


def build(spec: ModelSpec, sizes: Sizes) -> Model:
    """Returns the model of a specification, with initial values as the parametrization wants them.

    Before, they are those of `plugformer.model.build.build`, which raises the same errors.
    """
    model = build_standard(spec, sizes)
    if based := base_model(model):
        base, parametrization = based
        factors = _factors(model, base, lambda _, size: parametrization.scale(size))
        drawn = dict(base.named_parameters())
        with torch.no_grad():
            for path, parameter in model.named_parameters():
                ratio = drawn[path].square().mean().sqrt() / parameter.square().mean().sqrt()
                parameter.mul_(ratio.nan_to_num(1.0, 1.0) * factors[path])  # of 1 where all values are zero
    return model


def base_model(model: Model) -> tuple[Model, Parametrization] | None:
    """Returns the base model of a model, and its parametrization; None if the base is the model itself.

    Raises:
        ConfigurationError: A component refuses the sizes of the base model.
    """
    if model.spec.parametrization is None:
        return None
    parametrization: Parametrization = make(model.spec.parametrization)
    sizes: dict[str, Any] = {**parametrization.base}
    base = replace(model.spec, **sizes)
    if base == model.spec:
        return None
    with placed(None, ("model", "parametrization")):
        return build_standard(base, model.sizes), parametrization


def learning_rates(model: Model, updates: Callable[[str, Tensor], Updates]) -> dict[str, float]:
    """Returns the factor of each parameter's learning rate, empty if all are 1.

    Args:
        model: The model.
        updates: Says how the optimizer of a parameter moves it, as `Optimizer.updates` does.

    Raises:
        ConfigurationError: The optimizer does not say so, or the base model has no such parameter.
    """
    with torch.device("meta"):
        based = base_model(model)
    if based is None:
        return {}
    moved = {path: updates(path, values) for path, values in model.named_parameters()}
    return _factors(model, based[0], lambda path, size: based[1].rate(size, moved[path]))


def _factors(model: Model, base: Model, factor: Callable[[str, ParameterSize], float]) -> dict[str, float]:
    """Returns the factor of each parameter. A tied embedding has that of an input.

    What it would have as an output, other than as an input, the final norm has instead.
    """
    sizes = parameter_sizes(model, base)
    factors = {path: factor(path, size) for path, size in sizes.items()}
    shared = set(model.head.parameters())
    for path, parameter in model.named_parameters():
        if parameter in shared and not path.startswith("head."):
            output = ParameterSize(role=Role.OUTPUT, fan_in=sizes[path].fan_out)
            missing = factor(path, output) / factors[path]
            factors |= {vector: factors[vector] * missing for vector in _norm_below_head(model)}
    return factors


def _norm_below_head(model: Model) -> list[str]:
    """Returns the paths of the parameters of the final norm; raises ConfigurationError if it has none."""
    name, stack = [*model.stacks.items()][-1]
    norm = [f"{name}.final_norm.{each}" for each, _ in stack.get_submodule("final_norm").named_parameters()]
    if not norm or sum(parameter.dim() > 1 for parameter in model.head.parameters()) > 1:
        raise ConfigurationError(
            "model.embeddings.tied: the final norm right below the head is scaled instead of a tied "
            "matrix, but there is none\nset it to false, or choose the head language_model and a final_norm"
        )
    return norm


def parameter_sizes(model: Model, base: Model) -> dict[str, ParameterSize]:
    """Returns the sizes of each parameter over those in the base model.

    Raises:
        ConfigurationError: The base model has no such parameter.
    """
    roles, counts = roles_of(model), on_residual_paths(model)[0]
    others, sizes = dict(base.named_parameters()), {}
    for path, parameter in model.named_parameters():
        if path not in others:
            message = f"model.parametrization: the base model of width {base.spec.width} has no {path}"
            raise ConfigurationError(f"{message}, such as a callback adds; choose standard")
        module = model.get_submodule(path.rpartition(".")[0])
        here, there = _fans(module, parameter, roles[path]), _fans(module, others[path], roles[path])
        fan_in, fan_out = here[0] / there[0], here[1] / there[1]
        grows = roles[path] is Role.OUTPUT and fan_out != 1  # a hidden layer of the head
        is_scaled = isinstance(module, TokenEmbedding) and model.spec.scaled_embeddings
        sizes[path] = ParameterSize(
            role=Role.HIDDEN if grows else roles[path],
            fan_in=fan_in,
            fan_out=fan_out,
            longest=max(here) / max(there),
            head_width=fan_out * base.spec.heads / model.spec.heads if roles[path] is Role.QUERY else 1.0,
            multiplier=fan_out**0.5 if is_scaled else 1.0,
            residual_layers=counts.get(path, 0),
        )
    return sizes


def _fans(module: nn.Module, values: Tensor, role: Role) -> tuple[int, int]:
    """Returns the numbers of inputs and outputs of a parameter; an outer axis is that of experts."""
    if isinstance(module, (nn.Conv1d, nn.Conv2d)):
        return prod(values.shape[1:]), values.shape[0]
    outputs, inputs = (1, 1, *values.shape)[-2:]
    return (1, inputs) if role is Role.INPUT or values.dim() < 2 else (inputs, outputs)


def roles_of(model: nn.Module) -> dict[str, Role]:
    """Returns the role of each parameter. What an inner module says precedes what an outer one says."""
    roles = {path: Role.HIDDEN if each.dim() > 1 else Role.INPUT for path, each in model.named_parameters()}
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters():
            role: Role | None = getattr(module, "roles", {}).get(name)
            if role is None and isinstance(module, (nn.Embedding, TokenEmbedding, PositionalEncoding)):
                role = Role.INPUT
            elif role is None and isinstance(module, Head) and parameter.dim() > 1:
                role = Role.OUTPUT
            elif role is None and isinstance(module, Attention) and "query" in name.split("."):
                role = Role.QUERY
            roles |= {f"{path}.{name}".removeprefix("."): role} if role else {}
    return roles
