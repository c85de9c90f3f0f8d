"""The optimizer of a task: its component, or several of them, each for a group of parameters."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from plugformer.errors import ConfigurationError, nearest
from plugformer.experiment import Experiment
from plugformer.interfaces import Model, Optimizer, Updates
from plugformer.model import learning_rates
from plugformer.registry import Kind

__all__ = ["JoinedOptimizer", "matching_paths"]


class JoinedOptimizer(torch.optim.Optimizer):
    """Several torch optimizers as one; each moves its own parameters.

    They share its parameter groups and its state: a schedule, or a state that is loaded, reaches them all.

    Args:
        parts: The optimizers, in the order in which they make their steps. No two have the same parameter.
    """

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = parts
        for part in parts:
            self.state.update(part.state)
        self._share()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the state of all parts."""
        super().load_state_dict(state_dict)
        self._share()

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Makes a step of each part; there is no closure."""
        del closure
        for part in self.parts:
            part.step()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self.parts:
            part.param_groups = list(islice(groups, len(part.param_groups)))
            part.state = self.state
            if isinstance(part, JoinedOptimizer):
                part._share()


def evaluated_values(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor] | None:
    """Returns the values that an optimizer wants evaluated, by parameter name; None if those that it trains.

    The method `eval` of a torch optimizer, if it has one, gives these values to its parameters, and `train`
    the others, as in The Road Less Scheduled, Defazio et al. 2024: https://arxiv.org/abs/2405.15682. They end
    with exactly those that they had: a training does not depend on how often it is evaluated.
    """
    switching = list(_switching(optimizer))
    if not switching:
        return None
    trained = _copies(model)
    for part in switching:
        part.eval()
    evaluated = _copies(model)
    for part in switching:
        part.train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(trained[name])
    return evaluated


def _switching(optimizer: torch.optim.Optimizer) -> Iterator[Any]:
    """Yields the optimizers with a method `eval` among the parts of one, or it."""
    if isinstance(optimizer, JoinedOptimizer):
        for part in optimizer.parts:
            yield from _switching(part)
    elif hasattr(optimizer, "eval"):
        yield optimizer


def _copies(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def matching_paths(pattern: str, paths: Collection[str]) -> list[str]:
    """Returns the paths of parameters that a pattern matches, such as `encoder` or `*.norms.*`.

    Patterns are like those of files; `*` matches any characters, dots as well. A pattern that matches a
    module means all parameters in it.

    Raises:
        ConfigurationError: It matches none.
    """
    matching = [path for path in paths if fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}.*")]
    if not matching:
        places = sorted({".".join(path.split(".")[:depth]) for path in paths for depth in (1, 2)})
        raise ConfigurationError(
            f"no parameter matches {pattern!r}{nearest(pattern, [*places, *paths])}\n"
            f"there are {', '.join(places)}, and what is in them"
        )
    return matching


def optimizer_of(experiment: Experiment, model: Model) -> Optimizer:
    """Returns the optimizer of a model, with a part for each of the task's groups of parameters.

    Raises:
        ConfigurationError: A pattern matches no parameter, or only those of earlier groups, or a component
            refuses its options; every pattern with its place.
    """
    block = experiment.task.training.optimizer
    whole: Optimizer = experiment.create(Kind.OPTIMIZER, block)
    grouped = GroupedOptimizer(experiment, model)
    return grouped if block.groups or block.layer_decay or grouped.rates else whole


class Rule(NamedTuple):
    """How parameters are moved: an optimizer, and a factor of its learning rates."""

    optimizer: Optimizer
    factor: float = 1.0


class GroupedOptimizer(Optimizer):
    """Moves each group of parameters by an optimizer of its own; `groups.0` is the first one's name.

    The learning rate falls by `layer_decay` from layer to layer, from the top of a stack to its embeddings,
    as in Universal Language Model Fine-tuning for Text Classification, Howard and Ruder 2018, section 3.2:
    https://arxiv.org/abs/1801.06146.

    Attributes:
        rates: Factors of learning rates, by the parametrization of the model; empty if all are 1.
    """

    def __init__(self, experiment: Experiment, model: Model) -> None:
        block = experiment.task.training.optimizer
        self.lr = block.options["lr"]
        create = partial(experiment.registry.create, Kind.OPTIMIZER)
        self._groups = groups_of(experiment, model)
        self._layers = numbers_of_layers(path for path, _ in model.named_parameters())
        self._decay = block.layer_decay or 1.0
        self._rules = {"": Rule(create(block.name, **block.options))}
        schedules = {}
        for number, group in enumerate(block.groups):
            name, options = f"groups.{number}", group.options
            if not group.name:
                options = block.options | options
            self._rules[name] = Rule(create(group.name or block.name, **options), group.lr_factor)
            if group.schedule is not None:
                schedules[name] = experiment.create(Kind.SCHEDULE, group.schedule)
        self.schedules = schedules
        self.rates = learning_rates(model, self.updates)

    def build(self, parameters: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """Returns the optimizers of all groups as one; parameters that are not trained are in no group.

        A learning rate with a factor of its own takes off the same share of the weights at each update.
        """
        members = defaultdict(list)
        for path, parameter in parameters:
            if parameter.requires_grad:
                above = 0 if self._decay == 1 else layers_above(path, self._layers)
                rate = self.rates.get(path, 1.0)  # the rate of the first group is shown: the block's
                members[self._groups.get(path, ""), above, rate != 1, rate].append((path, parameter))
        parts = []
        for (name, above, _, rate), named in sorted(members.items(), key=lambda item: item[0]):
            part = self._rules[name].optimizer.build(named)
            for group in part.param_groups:
                group["lr"] *= self._rules[name].factor * self._decay**above * rate
                if "weight_decay" in group:
                    group["weight_decay"] /= rate
                if name:
                    group["name"] = name
            parts.append(part)
        return JoinedOptimizer(parts)

    def updates(self, path: str, parameter: Tensor) -> Updates:
        """Returns how large the updates of a parameter's group are."""
        return self._rules[self._groups.get(path, "")].optimizer.updates(path, parameter)


def groups_of(experiment: Experiment, model: Model) -> dict[str, str]:
    """Returns the name of each parameter's group by its first path; those in no group are left out.

    The paths of a parameter that several modules share are equal.

    Raises:
        ConfigurationError: As for `optimizer_of`.
    """
    first: dict[nn.Parameter, str] = {}
    every = model.named_parameters(remove_duplicate=False)
    paths = {path: first.setdefault(parameter, path) for path, parameter in every}
    groups: dict[str, str] = {}
    findings = []
    for number, group in enumerate(experiment.task.training.optimizer.groups):
        members: set[str] = set()
        for index, pattern in enumerate(group.parameters):
            try:
                matching = {paths[path] for path in matching_paths(pattern, paths)} - groups.keys()
                if not matching:
                    message = f"earlier groups have all parameters that match {pattern!r}"
                    raise ConfigurationError(f"{message}; the first group that matches counts")
            except ConfigurationError as error:
                place = ("training", "optimizer", "groups", number, "parameters", index)
                findings.append((place, str(error)))
            else:
                members |= matching
        groups |= dict.fromkeys(members, f"groups.{number}")
    experiment.raise_for(findings)
    return groups


_LAYER = re.compile(r"(\w+)\.layers\.(\d+)\.")


def numbers_of_layers(paths: Iterable[str]) -> dict[str, int]:
    """Returns the number of layers of each stack."""
    layers: dict[str, int] = {}
    for found in filter(None, map(_LAYER.match, paths)):
        layers[found[1]] = max(layers.get(found[1], 0), int(found[2]) + 1)
    return layers


def layers_above(path: str, layers: dict[str, int]) -> int:
    """Returns how many of its stack's layers read a parameter's output; 0 outside of stacks.

    Args:
        path: The path of the parameter in the model.
        layers: The number of layers of each stack.
    """
    if found := _LAYER.match(path):
        return layers[found[1]] - 1 - int(found[2])
    stack, _, rest = path.partition(".")
    return layers.get(stack, 0) if rest.startswith(("embedding.", "position.")) else 0
