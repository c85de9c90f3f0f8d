"""The contract of initial values, see plugformer.interfaces.training."""

import torch
from torch import Tensor, nn

from plugformer.interfaces import Initialization, ParameterContext
from plugformer.model import draw_own_values, random_stream
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject

WIDTH, HIDDEN = 12, 20
UPDATES = 100


class SmallNetwork(nn.Module):
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
        """Draws the values that no child draws."""
        nn.init.normal_(self.experts, std=WIDTH**-0.5)
        nn.init.ones_(self.number)

    def forward(self, ids: Tensor) -> Tensor:
        """Returns a vector for each token."""
        x: Tensor = self.embedding(ids)
        x = x + self.down(self.up(x).relu())
        output: Tensor = self.norm(x) @ self.experts.sum(dim=0) * self.number
        return output


def _drawn(
    scheme: Initialization, *, seed: int = 1, backwards: bool = False, network: SmallNetwork | None = None
) -> dict[str, nn.Parameter]:
    """Returns all parameters of a network, drawn by a scheme in their order or backwards."""
    if network is None:
        draw_own_values(network := SmallNetwork(), seed)
    modules, parameters = dict(network.named_modules()), dict(network.named_parameters())
    for path in reversed(parameters) if backwards else parameters:
        parent, _, name = path.rpartition(".")
        layers = 4 if path == "down.weight" else 0
        context = ParameterContext(name=name, path=path, module=modules[parent], residual_layers=layers)
        with random_stream(seed, path), torch.no_grad():
            scheme.draw(parameters[path], context)
    return parameters


@contract_check()
def values_are_finite(subject: Subject) -> None:
    """Parameters of every shape have finite values: a number, vectors, matrices, several matrices in one."""
    for path, parameter in _drawn(subject.create()).items():
        require.finite(parameter, f"{path} of shape {tuple(parameter.shape)}")


@contract_check()
def parameters_stay_what_they_are(subject: Subject) -> None:
    """Values change in place: a parameter keeps its shape, type and memory, and is trained as before."""
    network = SmallNetwork()
    before = {path: _identity(parameter) for path, parameter in network.named_parameters()}
    for path, parameter in _drawn(subject.create(), network=network).items():
        require.equal(_identity(parameter), before[path], f"{path}, whose values are to be set in place,")


def _identity(parameter: nn.Parameter) -> tuple[object, ...]:
    return parameter.shape, parameter.dtype, parameter.data_ptr(), parameter.requires_grad


@contract_check()
def values_follow_the_seed(subject: Subject) -> None:
    """The same seed gives the same values, another one others: only torch's generator is used."""
    one, same, other = (_drawn(subject.create(), seed=seed) for seed in (1, 1, 2))
    require.same(same, one, "drawn again from the same seed")
    differ = any(not torch.equal(one[path], other[path]) for path in one if one[path].dim() > 1)
    require.that(differ, "another seed gives matrices the same values: replicates of a study would be one")


@contract_check()
def each_parameter_is_drawn_alone(subject: Subject) -> None:
    """Values do not depend on which parameters were drawn before."""
    scheme: Initialization = subject.create()
    one = _drawn(scheme)
    for again in (scheme, subject.create()):
        require.same(_drawn(again, backwards=True), one, "drawn in another order")


@contract_check()
def a_small_network_learns(subject: Subject) -> None:
    """A small network that starts with these values learns."""
    draw_own_values(network := SmallNetwork(), 1)
    _drawn(subject.create(), network=network)
    targets = torch.sin(torch.arange(7 * WIDTH, dtype=torch.float32) * 1.7).view(7, WIDTH)
    targets -= targets.mean(dim=0)  # biases alone cannot fit them
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    losses = []
    for _ in range(UPDATES):
        loss = (network(torch.arange(7)) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    learns = losses[-1] < 0.5 * min(losses[0], targets.square().mean().item())
    require.that(learns, f"after {UPDATES} updates the loss is {losses[-1]:.3g}, before {losses[0]:.3g}")
