"""Optimizers of other packages, by the names of their classes."""

from collections.abc import Iterable
from importlib import import_module
from inspect import signature
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Optimizer, Updates

PACKAGES = ("pytorch_optimizer", "schedulefree", "prodigyopt")

OUTER = {"embedding", "position", "head"}
"""Parts of a model whose matrices are tables of vectors, or maps to outputs: they are not orthogonalized."""

Algorithm = Annotated[str, Field(pattern=rf"^({'|'.join(PACKAGES)})\.\w+$")]


class AdaptedOptimizer(Optimizer):
    """An optimizer of pytorch-optimizer, schedulefree or prodigyopt, by the name of its class.

    Matrices decay, embeddings among them; vectors and scalars do not. Those with a method `train`, such as
    schedule-free ones, begin in that mode.

    pytorch-optimizer: https://github.com/kozistr/pytorch_optimizer.

    Args:
        algorithm: Package and class, such as `pytorch_optimizer.SOAP`.
        lr: Learning rate, which the schedule's factor multiplies.
        weight_decay: Share of a matrix taken off at each update, as the algorithm has it.
        settings: Other arguments of the class, such as `{betas: [0.9, 0.95]}`.
        updates_like: How large the updates are, for parametrizations; unknown if None.

    Raises:
        ConfigurationError: There is no such class, or it refuses its arguments.
    """

    def __init__(
        self,
        *,
        algorithm: Algorithm = "pytorch_optimizer.StableAdamW",
        lr: Annotated[float, Field(gt=0)] = 0.001,
        weight_decay: Annotated[float, Field(ge=0)] = 0.0,
        settings: dict[str, Any] | None = None,
        updates_like: Updates | None = None,
    ) -> None:
        package, _, name = algorithm.rpartition(".")
        found = getattr(import_module(package), name, None)
        if not (isinstance(found, type) and issubclass(found, torch.optim.Optimizer)):
            raise ConfigurationError(f"{package} has no optimizer {name!r}")
        self.algorithm: Any = found
        self.orthogonal = "adamw_lr" in signature(self.algorithm).parameters
        self.lr = lr
        self.weight_decay = weight_decay
        self.settings = settings or {}
        self.updates_like = updates_like

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns the package's optimizer, with groups by what decays, and by what is orthogonalized.

        Those like Muon orthogonalize hidden matrices, and move all other parameters by AdamW, with a rate of
        its own, `adamw_lr` among the settings.
        """
        groups: dict[tuple[bool, bool], dict[str, Any]] = {}
        for path, parameter in parameters:
            if parameter.requires_grad:
                matrix = parameter.ndim >= 2
                kind = self.orthogonal and parameter.ndim == 2 and not OUTER & set(path.split(".")), matrix
                decay = self.weight_decay if matrix else 0.0
                group = groups.setdefault(kind, {"params": [], "weight_decay": decay})
                group["params"].append(parameter)
                if self.orthogonal:
                    group["use_muon"] = kind[0]
        ordered = [groups[kind] for kind in sorted(groups, reverse=True)]
        try:
            optimizer: torch.optim.Optimizer = self.algorithm(ordered, lr=self.lr, **self.settings)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{self.algorithm.__name__}: {error}") from error
        optimizer.register_step_post_hook(_row_major)
        if hasattr(optimizer, "train"):
            optimizer.train()
        return optimizer

    def updates(self, path: str, parameter: Tensor) -> Updates:
        """Returns what the manifest or the task says."""
        return super().updates(path, parameter) if self.updates_like is None else self.updates_like


def _row_major(optimizer: torch.optim.Optimizer, *_: object) -> None:
    """Stores tensors of the state as checkpoints do, so that resumed trainings round like others."""
    for parameter, values in optimizer.state.items():
        optimizer.state[parameter] = {name: _contiguous(value) for name, value in values.items()}


def _contiguous(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_contiguous, value))
    return value.contiguous() if isinstance(value, Tensor) else value
