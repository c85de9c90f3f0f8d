"""The contracts of schedules, optimizers and initial values, see plugformer.interfaces.training."""

import math

import pytest
import torch
from torch import Tensor, nn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Initialization, Schedule
from plugformer.model.build import draw_own_values
from plugformer.registry import Kind
from plugformer.reproducibility import random_stream
from plugformer.runs.store import join_tensors, split_tensors
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject

LENGTHS = (1, 2, 7, 1000)  # updates of trainings, also shorter ones than a warm-up


def _curve(schedule: Schedule, steps: int, width: int = 64) -> list[float]:
    return [schedule.factor(step, steps=steps, width=width) for step in range(1, steps + 1)]


@contract_check(Kind.SCHEDULE, cases=(*((steps, 64) for steps in LENGTHS), (100, 1), (100, 8), (100, 1024)))
def factors_are_numbers(subject: Subject, case: tuple[int, int]) -> None:
    """The factor of every update is finite and not negative, for any number of updates and model width."""
    for step, factor in enumerate(_curve(subject.create(), *case), start=1):
        sound = isinstance(factor, (int, float)) and math.isfinite(factor) and factor >= 0
        require.that(sound, f"the factor of update {step} is {factor!r}, expected a finite number from 0")


@contract_check(Kind.SCHEDULE, cases=(2, 7, 1000))
def only_the_last_update_may_stand_still(subject: Subject, steps: int) -> None:
    """The factor is positive at every update but the last, where a curve may end at zero."""
    for step, factor in enumerate(_curve(subject.create(), steps)[:-1], start=1):
        require.that(factor > 0, f"the factor of update {step} of {steps} is zero: nothing is learned there")


@contract_check(Kind.SCHEDULE, cases=LENGTHS)
def factors_depend_on_the_arguments_alone(subject: Subject, steps: int) -> None:
    """Called again, in another order or on another object, it gives the same: a resumed run has no past."""
    schedule: Schedule = subject.create()
    schedule.factor(1, steps=steps + 1, width=128)
    forwards = _curve(schedule, steps)
    backwards = [schedule.factor(step, steps=steps, width=64) for step in range(steps, 0, -1)]
    same = backwards[::-1] == forwards == _curve(subject.create(), steps)
    require.that(same, "factors depend on earlier calls: resuming would change the curve")


TorchOptimizer = torch.optim.Optimizer

LONG = 20
"""Updates after which every tenth has happened, as with new preconditioners, and a start without steps."""


class _Quadratic(nn.Module):
    """A quadratic whose minimum is known: a matrix, a vector and a scalar, each pulled to a target."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.zeros(3, 4))
        self.vector = nn.Parameter(torch.zeros(5))
        self.scalar = nn.Parameter(torch.zeros(()))

    def loss(self) -> Tensor:
        """Returns the sum of squared distances to the targets, which lie between 1 and 2."""
        targets = [torch.linspace(1, 2, p.numel()).view(p.shape) for p in self.parameters()]
        losses = [(p - target).square().sum() for p, target in zip(self.parameters(), targets, strict=True)]
        return torch.stack(losses).sum()

    def optimized(self, optimizer: TorchOptimizer, updates: int = 1) -> "_Quadratic":
        for _ in range(updates):
            optimizer.zero_grad()
            self.loss().backward()
            optimizer.step()
        return self

    def values(self) -> dict[str, Tensor]:
        return {name: parameter.detach() for name, parameter in self.named_parameters()}


def _start(subject: Subject, updates: int = 0) -> tuple[_Quadratic, TorchOptimizer]:
    """Returns a new quadratic and its optimizer; the parameters come as an iterator, as from a model."""
    quadratic = _Quadratic()
    built: TorchOptimizer = subject.create().build(iter(list(quadratic.named_parameters())))
    return quadratic.optimized(built, updates), built


@contract_check(Kind.OPTIMIZER)
def builds_a_torch_optimizer(subject: Subject) -> None:
    """It builds a torch.optim.Optimizer that holds every parameter once, also of a part of a model.

    Parts are what `training.optimizer.groups` gives it: here a matrix, and a vector with a scalar.
    """
    matrix, *others = _Quadratic().named_parameters()
    for part in ([matrix, *others], [matrix], others):
        try:
            built = subject.create().build(iter(part))
        except ConfigurationError as error:
            pytest.fail(f"it refuses {' and '.join(name for name, _ in part)}: {error}", pytrace=False)
        require.that(isinstance(built, TorchOptimizer), f"build returns {built!r}, expected an Optimizer")
        held = [id(parameter) for group in built.param_groups for parameter in group["params"]]
        for name, parameter in part:
            require.equal(held.count(id(parameter)), 1, f"how often the {name} is held")


@contract_check(Kind.OPTIMIZER)
def every_parameter_is_updated(subject: Subject) -> None:
    """Matrices, vectors and scalars all move, and 200 updates bring a quadratic nearer to its minimum."""
    for name, parameter in _start(subject, updates=LONG)[0].named_parameters():
        require.that((parameter != 0).all(), f"the {name} is not updated")
    before, after = (float(_start(subject, updates)[0].loss()) for updates in (0, 200))
    require.that(after < before, f"after 200 updates the loss is {after:.4g}, before them {before:.4g}")


@contract_check(Kind.OPTIMIZER)
def frozen_parameters_stay(subject: Subject) -> None:
    """A parameter that is not trained keeps its value."""
    quadratic = _Quadratic()
    quadratic.vector.requires_grad_(False).fill_(0.5)
    quadratic.optimized(subject.create().build(quadratic.named_parameters()), 3)
    require.that((quadratic.vector == 0.5).all(), "a parameter that is not trained is changed")


@contract_check(Kind.OPTIMIZER)
def the_schedule_moves_the_learning_rate(subject: Subject) -> None:
    """The first group has the learning rate `lr`. A group whose rate is zero stands still, others move."""
    lr = getattr(subject.create(), "lr", None)
    require.that(isinstance(lr, float), f"lr is {lr!r}, expected the learning rate")
    for number in range(len(_start(subject)[1].param_groups)):
        quadratic, built = _start(subject)
        require.equal(built.param_groups[0]["lr"], lr, "the learning rate of the first group")
        for parameter in quadratic.parameters():
            parameter.data.fill_(0.5)
        built.param_groups[number]["lr"] = 0.0
        still = set(map(id, built.param_groups[number]["params"]))
        for name, parameter in quadratic.optimized(built, LONG).named_parameters():
            moves = bool((parameter != 0.5).any())
            words = "moves although its" if moves else "does not move if another group's"
            require.that(moves != (id(parameter) in still), f"the {name} {words} learning rate is zero")


@contract_check(Kind.OPTIMIZER, cases=(1, 5))
def resuming_changes_nothing(subject: Subject, steps: int) -> None:
    """With its state saved and loaded, as a checkpoint has it, training continues exactly.

    The same gradients give the same updates.
    """
    quadratic, built = _start(subject, updates=steps)
    require.same(_start(subject, updates=steps)[0].values(), quadratic.values(), "with the same gradients")
    state = join_tensors(*split_tensors(built.state_dict(), "optimizer"))
    resumed, again = _start(subject)
    resumed.load_state_dict(quadratic.state_dict())
    again.load_state_dict(state)
    found, expected = resumed.optimized(again, LONG), quadratic.optimized(built, LONG)
    require.same(found.values(), expected.values(), "after loading its state")


WIDTH, HIDDEN = 12, 20


class _SmallNetwork(nn.Module):
    """An embedding, two linear maps with a residual connection, a norm, matrices of experts, and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.experts = nn.Parameter(torch.empty(3, WIDTH, WIDTH))
        self.number = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.experts, std=WIDTH**-0.5)
        nn.init.ones_(self.number)


def _drawn(scheme: Initialization, seed: int = 1) -> dict[str, nn.Parameter]:
    """Returns all parameters of a network, drawn by a scheme."""
    draw_own_values(network := _SmallNetwork(), seed)
    modules, parameters = dict(network.named_modules()), dict(network.named_parameters())
    for path in parameters:
        module, layers = modules[path.rpartition(".")[0]], 4 if path == "down.weight" else 0
        with random_stream(seed, path), torch.no_grad():
            scheme.draw(parameters[path], path, module, layers)
    return parameters


@contract_check(Kind.INITIALIZATION)
def values_are_finite(subject: Subject) -> None:
    """Parameters of every shape have finite values: a number, vectors, matrices, several matrices in one."""
    for path, parameter in _drawn(subject.create()).items():
        require.finite(parameter, f"{path} of shape {tuple(parameter.shape)}")


@contract_check(Kind.INITIALIZATION)
def values_follow_the_seed(subject: Subject) -> None:
    """The same seed gives the same values, another one others: only torch's generator is used."""
    one, same, other = (_drawn(subject.create(), seed) for seed in (1, 1, 2))
    require.same(same, one, "drawn again from the same seed")
    differ = any(not torch.equal(one[path], other[path]) for path in one if one[path].dim() > 1)
    require.that(differ, "another seed gives matrices the same values: replicates of a study would be one")
