"""The seeds of an arm: each a model of its own, or all stacked into one by torch.func and trained at once.

Stacked, components stay as they are. The loss does not: vmap cannot take its own function apart.
"""

from collections.abc import Sequence
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn.functional import cross_entropy
from torch.nn.functional import pad as padded

from plugformer.configuration.task import Task
from plugformer.experiment import Experiment
from plugformer.interfaces import Batch, Head, HeadInput, Tokens
from plugformer.model import Sizes, build
from plugformer.registry import Kind, Registry

State = tuple[dict[str, Tensor], dict[str, Tensor]]
Side = tuple[Tensor, Tensor]

IGNORED = -100
"""The target of a token that has none, as in PyTorch's `cross_entropy`."""


class Seed:
    """A model that is trained by itself, as `plugformer train` does.

    Args:
        task: Says what the model is.
        seed: Of the initial values.
        sizes: Of its vocabularies.
        registry: Has its components.
    """

    def __init__(self, task: Task, seed: int, sizes: Sizes, registry: Registry) -> None:
        self.settings = task.training.model_copy(update={"seed": seed})
        self.model = build(
            Experiment.of(task.model_copy(update={"training": self.settings}), registry).spec, sizes
        ).train()
        component = self.settings.optimizer
        builder = registry.create(Kind.OPTIMIZER, component.name, **component.options)
        self.optimizer: torch.optim.Optimizer = builder.build(self.model.named_parameters())

    def update(self, batch: Batch) -> float:
        """Makes an update; returns the mean loss before it."""
        loss = self.model(batch)
        mean = loss.total / self.model.count(batch)
        (mean + loss.auxiliary).backward()
        if self.settings.gradient_clipping is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.gradient_clipping)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(mean.detach())


class StackedSeeds:
    """Models that differ in their seed alone, trained at once.

    Args:
        seeds: What to start from; the first one's optimizer is taken over, so do not update it any more.
    """

    def __init__(self, seeds: Sequence[Seed]) -> None:
        self.settings = seeds[0].settings
        self.model = seeds[0].model
        self.parameters, self.buffers = stack_module_state([seed.model for seed in seeds])
        self.optimizer = seeds[0].optimizer
        stacked = {single: self.parameters[name] for name, single in self.model.named_parameters()}
        # A parameter by all its names: functional_call ties them only once where whole modules are shared.
        everywhere = self.model.named_parameters(remove_duplicate=False)
        self._named = {name: stacked[single] for name, single in everywhere}
        for group in self.optimizer.param_groups:  # chosen by the shapes of a single model
            group["params"] = [stacked[each] for each in group["params"]]

    def update(self, batches: Sequence[Batch]) -> list[float]:
        """Makes an update of each seed from its batch; returns the mean losses before it."""
        source = _stacked([each.source for each in batches])
        target = _stacked([each.target for each in batches])
        most = max(len(each.targets) for each in batches)
        targets = [padded(each.targets, (0, most - len(each.targets)), value=IGNORED) for each in batches]
        full = [bool(real.all()) for _, real in (source, target)]

        def loss(state: State, source: Side, target: Side, targets: Tensor) -> tuple[Tensor, Tensor]:
            batch = Batch(Tokens(*source, full[0]), Tokens(*target, full[1]), targets)
            found = functional_call(self.model, state, batch, tie_weights=False)
            return found.total, found.auxiliary

        with patch.object(type(self.model.head), "loss", _loss):
            totals, auxiliary = torch.vmap(loss, randomness="different")(
                (self._named, self.buffers), source, target, torch.stack(targets)
            )
        means = totals / totals.new_tensor([self.model.count(batch) for batch in batches])
        (means + auxiliary).sum().backward()
        self._clip()
        self.optimizer.step()
        self.optimizer.zero_grad()
        losses: list[float] = means.tolist()
        return losses

    def _clip(self) -> None:
        """Limits each seed's gradients by their own norm."""
        if self.settings.gradient_clipping is None:
            return
        gradients = [each.grad for each in self.parameters.values() if each.grad is not None]
        norms = torch.stack([each.flatten(1).norm(dim=1) for each in gradients]).norm(dim=0)
        factors = (self.settings.gradient_clipping / (norms + 1e-6)).clamp(max=1)  # as torch's own clipping
        for gradient in gradients:
            gradient.mul_(factors.view(-1, *[1] * (gradient.dim() - 1)))


def _loss(head: Head, hidden: Tensor, targets: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the summed loss of all real targets, and their number."""
    scores = head.logits(hidden, HeadInput(real))
    if targets.dim() > 1:
        scores, targets = scores.flatten(0, 1), targets.masked_fill(~real, IGNORED).flatten()
    total = cross_entropy(
        scores, targets, reduction="sum", ignore_index=IGNORED, label_smoothing=head.smoothing
    )
    return total, real.sum()


def _stacked(sides: Sequence[Tokens]) -> Side:
    """Returns the seeds' token numbers, and which of them are real; both (seeds, batch, length)."""
    rows, length = (max(each.ids.shape[axis] for each in sides) for axis in (0, 1))
    ids, real = [], []
    for each in sides:
        missing = (0, length - each.ids.shape[1], 0, rows - each.ids.shape[0])
        ids.append(padded(each.ids, missing))
        real.append(padded(each.mask, missing))
        real[-1][each.ids.shape[0] :, :1] = True  # nothing follows: no target, but something to attend to
    return torch.stack(ids), torch.stack(real)
