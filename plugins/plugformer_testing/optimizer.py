"""The contract of optimizers, see plugformer.interfaces.training."""

import copy

import torch
from torch import Tensor, nn

from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject

TorchOptimizer = torch.optim.Optimizer

LONG = 20  # updates after which also every tenth update has happened, such as one with new preconditioners


class Quadratic(nn.Module):
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

    def optimized(self, optimizer: TorchOptimizer, updates: int = 1) -> "Quadratic":
        """Returns itself after updates."""
        for _ in range(updates):
            optimizer.zero_grad()
            self.loss().backward()
            optimizer.step()
        return self

    def values(self) -> dict[str, Tensor]:
        """Returns the parameters."""
        return {name: parameter.detach() for name, parameter in self.named_parameters()}


def _start(subject: Subject, updates: int = 0) -> tuple[Quadratic, TorchOptimizer]:
    """Returns a new quadratic and its optimizer; the parameters come as an iterator, as from a model."""
    quadratic = Quadratic()
    built: TorchOptimizer = subject.create().build(iter(list(quadratic.named_parameters())))
    return quadratic.optimized(built, updates), built


@contract_check()
def builds_a_torch_optimizer(subject: Subject) -> None:
    """It builds a torch.optim.Optimizer that holds every parameter once."""
    quadratic, built = _start(subject)
    require.that(isinstance(built, TorchOptimizer), f"build returns {built!r}, expected a torch Optimizer")
    held = [id(parameter) for group in built.param_groups for parameter in group["params"]]
    for name, parameter in quadratic.named_parameters():
        require.equal(held.count(id(parameter)), 1, f"how often the {name} is held")


@contract_check()
def every_parameter_is_updated(subject: Subject) -> None:
    """Matrices, vectors and scalars all move, and 200 updates bring a quadratic nearer to its minimum."""
    for name, parameter in _start(subject, updates=3)[0].named_parameters():
        require.that((parameter != 0).all(), f"the {name} is not updated")
    before, after = (float(_start(subject, updates)[0].loss()) for updates in (0, 200))
    require.that(after < before, f"after 200 updates the loss is {after:.4g}, before them {before:.4g}")


@contract_check()
def frozen_parameters_stay(subject: Subject) -> None:
    """A parameter that is not trained keeps its value."""
    quadratic = Quadratic()
    quadratic.vector.requires_grad_(False).fill_(0.5)
    quadratic.optimized(subject.create().build(quadratic.named_parameters()), 3)
    require.that((quadratic.vector == 0.5).all(), "a parameter that is not trained is changed")


@contract_check()
def the_schedule_moves_the_learning_rate(subject: Subject) -> None:
    """`lr` is the learning rate of every parameter group, which the schedule's factor multiplies.

    Updates follow it: at zero nothing moves, nor decays.
    """
    lr = getattr(subject.create(), "lr", None)
    require.that(isinstance(lr, float), f"lr is {lr!r}, expected the learning rate")
    quadratic, built = _start(subject)
    require.equal({float(group["lr"]) for group in built.param_groups}, {lr}, "the learning rates of groups")
    for parameter in quadratic.parameters():
        parameter.data.fill_(0.5)
    for group in built.param_groups:
        group["lr"] = 0.0
    for name, parameter in quadratic.optimized(built).named_parameters():
        require.that((parameter == 0.5).all(), f"the {name} moves although the learning rate is zero")


@contract_check((1, 5))
def resuming_changes_nothing(subject: Subject, steps: int) -> None:
    """With its state saved and loaded, training continues exactly as if it had not stopped.

    The state must consist of tensors and plain values, which checkpoints can hold. The same gradients give
    the same updates.
    """
    quadratic, built = _start(subject, updates=steps)
    require.same(_start(subject, updates=steps)[0].values(), quadratic.values(), "with the same gradients")
    state = copy.deepcopy(built.state_dict())
    for index, values in state["state"].items():
        for name, value in values.items():
            plain = isinstance(value, (Tensor, int, float))
            require.that(plain, f"the state {name!r} of parameter {index} is {value!r}, no plain value")
    resumed, again = _start(subject)
    resumed.load_state_dict(quadratic.state_dict())
    again.load_state_dict(state)
    found, expected = resumed.optimized(again, LONG), quadratic.optimized(built, LONG)
    require.same(found.values(), expected.values(), "after loading its state")
