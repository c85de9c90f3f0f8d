"""Low-rank adapters: small matrices that are trained in place of large ones."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Any, cast

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils import parametrize

from plugformer.errors import ConfigurationError
from plugformer.hooks import Run, hookimpl
from plugformer.interfaces import Callback
from plugformer.optimizer import matching_paths

Patterns = list[str]


class LowRank(nn.Module):
    """W + alpha / rank * B A, for a matrix W of (outputs, inputs).

    A is (rank, inputs) and B (outputs, rank). B begins with zeros, so that nothing changes at first.
    """

    def __init__(self, weight: Float[Tensor, "outputs inputs"], rank: int, alpha: float) -> None:
        super().__init__()
        outputs, inputs = weight.shape
        self.a = nn.Parameter(torch.empty(rank, inputs, device=weight.device))
        self.b = nn.Parameter(torch.zeros(outputs, rank, device=weight.device))
        self.scale = alpha / rank

    def forward(self, weight: Float[Tensor, "outputs inputs"]) -> Float[Tensor, "outputs inputs"]:
        """Returns the sum."""
        return torch.addmm(weight, self.b, self.a, alpha=self.scale)


class LoRA(Callback):
    """Trains low-rank updates of the matrices of some linear maps, and the head; the rest keeps its values.

    LoRA, Hu et al. 2021, section 4.1: https://arxiv.org/abs/2106.09685. Saved models have the sums, so that
    a run is loaded like any other, with nothing slower. Groups of optimizers, and `freeze` after it, see the
    names `MAP.parametrizations.weight.0.a` and `.b`.

    Args:
        rank: Of the updates.
        alpha: The updates are multiplied by alpha / rank.
        modules: Linear maps by the end of their path, or patterns of paths such as `encoder.layers.1.*`.
        also: Patterns of further parameters that are trained as they are.
    """

    def __init__(
        self,
        *,
        rank: Annotated[int, Field(ge=1, le=4096)] = 8,
        alpha: Annotated[float, Field(gt=0)] = 16.0,
        modules: Annotated[Patterns, Field(min_length=1)] = ["query", "value"],  # noqa: B006 (pydantic copies it)
        also: Patterns = ["head"],  # noqa: B006 (pydantic copies it)
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.modules = modules
        self.also = also
        self.adapted: dict[str, nn.Module] = {}

    @hookimpl(trylast=True)
    def model_built(self, run: Run) -> None:
        """Freezes the model and adds the updates, after hooks that load weights.

        Raises:
            ConfigurationError: A pattern matches no linear map, or no parameter; or the model has such
                updates already.
        """
        model = run.model
        if any(isinstance(module, LowRank) for module in model.modules()):
            raise ConfigurationError("the model has low-rank updates already; list `lora` once")
        parameters = dict(model.named_parameters(remove_duplicate=False))
        names = {name for pattern in self.also for name in matching_paths(pattern, parameters)}
        trained = {id(parameters[name]) for name in names if parameters[name].requires_grad}
        for parameter in model.parameters():
            parameter.requires_grad_(id(parameter) in trained)
        maps = {path: each for path, each in model.named_modules() if isinstance(each, nn.Linear)}
        for pattern in self.modules:
            found = [path for path in maps if fnmatchcase(path, pattern) or path.endswith(f".{pattern}")]
            if not found:
                ends = ", ".join(sorted({path.rpartition(".")[2] for path in maps}))
                raise ConfigurationError(f"no linear map matches {pattern!r}; their names end with {ends}")
            self.adapted.update((path, maps[path]) for path in found)
        for linear in self.adapted.values():
            update = LowRank(cast("Tensor", linear.weight), self.rank, self.alpha)
            if not update.a.is_meta:
                with torch.no_grad():
                    update.a.copy_(torch.randn(update.a.shape, generator=self.generator) / self.rank**0.5)
            parametrize.register_parametrization(linear, "weight", update)
            cast("Any", linear).parametrizations.weight.original.requires_grad_(False)
        model.register_state_dict_post_hook(partial(_merge, self.adapted))
        model.register_load_state_dict_pre_hook(partial(_keep, self.adapted))

    @hookimpl
    def run_ended(self, run: Run) -> None:
        """Leaves a model without updates, as it was saved."""
        for linear in self.adapted.values():
            parametrize.remove_parametrizations(linear, "weight")
        self.adapted.clear()
        del run

    def state_dict(self) -> dict[str, Any]:
        """Returns the updates and the matrices that they are added to."""
        return {
            f"{path}.{name}": value
            for path, linear in self.adapted.items()
            for name, value in cast("Any", linear).parametrizations.weight.state_dict().items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores them."""
        for path, linear in self.adapted.items():
            weights = cast("Any", linear).parametrizations.weight
            weights.load_state_dict({name: state[f"{path}.{name}"] for name in weights.state_dict()})


def _keep(adapted: Mapping[str, nn.Module], module: nn.Module, state: dict[str, Any], *_: Any) -> None:
    """Replaces sums by the updates that there are, and by what they have to be added to.

    On a resume `load_state_dict` of the hook then sets all of them.
    """
    del module
    for path, linear in adapted.items():
        parts = cast("Any", linear).parametrizations.weight.state_dict()
        given, weight = state.pop(f"{path}.weight", None), cast("Tensor", linear.weight).detach()
        if given is not None and not torch.equal(given.to(weight), weight):  # else rounding would change it
            parts["original"] = parts["original"] + given.to(weight) - weight
        for name, value in parts.items():
            state[f"{path}.parametrizations.weight.{name}"] = value


def _merge(
    adapted: Mapping[str, nn.Module], module: nn.Module, state: dict[str, Any], prefix: str, local: Any
) -> None:
    """Replaces matrices and updates by their sums, under the names that they have without updates."""
    del module, local
    for path, linear in adapted.items():
        name = f"{prefix}{path}."
        for part in ("original", "0.a", "0.b"):
            state.pop(f"{name}parametrizations.weight.{part}", None)
        state[f"{name}weight"] = linear.weight
