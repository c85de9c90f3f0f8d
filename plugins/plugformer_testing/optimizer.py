"""The contract of optimizers: see plugformer.interfaces.optimizer."""

import copy

import torch
from torch import Tensor, nn

from plugformer.interfaces import Optimizer
from plugformer_testing.check import check, fail, require, require_close
from plugformer_testing.subject import Subject

Built = torch.optim.Optimizer

LONG = 20
"""Updates in which what happens at every tenth, such as new preconditioners, happens."""


class Bowl(nn.Module):
    """A quadratic whose minimum is known: a matrix, a vector and a scalar, each pulled to a target."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.zeros(3, 4))
        self.vector = nn.Parameter(torch.zeros(5))
        self.scalar = nn.Parameter(torch.zeros(()))
        self.targets: dict[str, Tensor] = {
            name: torch.linspace(1, 2, parameter.numel()).view(parameter.shape)
            for name, parameter in self.named_parameters()
        }

    def loss(self) -> Tensor:
        """Returns the sum of squared distances to the targets."""
        losses = [(p - self.targets[name]).square().sum() for name, p in self.named_parameters()]
        return torch.stack(losses).sum()

    def step(self, optimizer: Built) -> float:
        """Makes an update and returns the loss before it."""
        optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        optimizer.step()
        return float(loss)


def _start(subject: Subject, updates: int = 0) -> tuple[Bowl, Built]:
    """Returns a new quadratic and its optimizer; the parameters come as an iterator, as from a model."""
    bowl, component = Bowl(), subject.create()
    built: Built = component.build(iter(list(bowl.named_parameters())))
    for _ in range(updates):
        bowl.step(built)
    return bowl, built


def _require_same(bowl: Bowl, other: Bowl, message: str) -> None:
    for (name, one), two in zip(bowl.named_parameters(), other.parameters(), strict=True):
        require_close(two, one, message.format(name), tolerance=0.0)


@check()
def builds_a_torch_optimizer(subject: Subject) -> None:
    """It builds a torch.optim.Optimizer that holds every parameter once."""
    bowl, built = _start(subject)
    if not isinstance(built, Built):
        fail(f"build returns {type(built).__name__}, expected a torch.optim.Optimizer")
    held = [id(parameter) for group in built.param_groups for parameter in group["params"]]
    for name, parameter in bowl.named_parameters():
        if held.count(id(parameter)) != 1:
            fail(f"the {name} is held {held.count(id(parameter))} times, not once")


@check()
def lowers_a_quadratic(subject: Subject) -> None:
    """At its own learning rate, 200 updates bring a quadratic nearer to its minimum."""
    before, after = (float(_start(subject, updates)[0].loss()) for updates in (0, 200))
    require(after < before, f"after 200 updates the loss is {after:.4g}, at the start it was {before:.4g}")


@check()
def every_parameter_is_updated(subject: Subject) -> None:
    """Matrices, vectors and scalars all move."""
    bowl, _ = _start(subject, updates=3)
    for name, parameter in bowl.named_parameters():
        require(bool((parameter != 0).all()), f"the {name} is not updated")


@check()
def frozen_parameters_stay(subject: Subject) -> None:
    """A parameter that is not trained keeps its value."""
    bowl = Bowl()
    with torch.no_grad():
        bowl.vector.fill_(0.5)
    bowl.vector.requires_grad_(False)
    built: Built = subject.create().build(bowl.named_parameters())
    for _ in range(3):
        bowl.step(built)
    require(bool((bowl.vector == 0.5).all()), "a parameter that is not trained is changed")


@check()
def the_learning_rate_is_the_option(subject: Subject) -> None:
    """`lr` is the learning rate of every parameter group, which the schedule's factor multiplies."""
    component: Optimizer = subject.create()
    lr = getattr(component, "lr", None)
    require(isinstance(lr, float), f"lr is {lr!r}, expected the learning rate")
    built = component.build(Bowl().named_parameters())
    rates = {float(group["lr"]) for group in built.param_groups}
    require(rates == {lr}, f"the learning rates of the groups are {sorted(rates)}, lr is {lr}")


@check()
def the_schedule_moves_the_learning_rate(subject: Subject) -> None:
    """Updates follow the learning rate of the parameter groups: at zero nothing moves, nor decays."""
    bowl, built = _start(subject)
    for parameter in bowl.parameters():
        parameter.data.fill_(0.5)
    for group in built.param_groups:
        group["lr"] = 0.0
    bowl.step(built)
    for name, parameter in bowl.named_parameters():
        if not (parameter == 0.5).all():
            fail(f"the {name} moves although the learning rate is zero: the schedule has no effect")


@check((1, 5))
def resuming_changes_nothing(subject: Subject, steps: int) -> None:
    """With its state saved and loaded, training goes on exactly as if it had not stopped.

    The state must consist of tensors and plain values: that is what checkpoints hold.
    """
    bowl, built = _start(subject, updates=steps)
    state = copy.deepcopy(built.state_dict())
    for index, values in state["state"].items():
        for name, value in values.items():
            kind = type(value).__name__
            what = f"the state {name!r} of parameter {index} is a {kind}"
            require(isinstance(value, (Tensor, int, float)), f"{what}: no checkpoint can hold it")
    resumed, again = _start(subject)
    resumed.load_state_dict(bowl.state_dict())
    again.load_state_dict(state)
    for _ in range(LONG):
        bowl.step(built)
        resumed.step(again)
    message = "after loading its state, the {} takes another way than without stopping"
    _require_same(resumed, bowl, message)


@check()
def updates_are_repeatable(subject: Subject) -> None:
    """The same gradients give the same updates."""
    (one, _), (other, _) = (_start(subject, updates=3) for _ in range(2))
    _require_same(one, other, "the same gradients move the {} differently")
