"""The contract of heads, see plugformer.interfaces.head."""

from dataclasses import dataclass
from itertools import cycle, islice, product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from plugformer.interfaces import Head, OutputType
from plugformer.model.build import draw_own_values
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.probes import BATCHES, FULL, PADDED, PaddedBatch
from plugformer_testing.subject import OUTPUTS, Subject

_NUMBERS = frozenset({OutputType.NUMBER})
_LABELS = frozenset({OutputType.LABELS})


@dataclass
class _HeadCase:
    """A perturbed head in double precision, with random hidden states, and random targets or its own."""

    head: Head
    hidden: Tensor
    mask: Tensor
    targets: Tensor
    by_token: bool

    @classmethod
    def of(cls, subject: Subject, batch: PaddedBatch, **sizes: Any) -> "_HeadCase":
        numbers = getattr(subject.component, "output_types", None) == _NUMBERS
        head: Head = subject.perturbed(outputs=1 if numbers else OUTPUTS, **sizes)
        hidden = subject.tokens(*batch.mask.shape)
        return cls(head, hidden, batch.mask, *_targets(head, head.logits(hidden, batch.mask), batch.mask))

    @property
    def jointly(self) -> bool:
        """Whether the targets of a sequence are predicted together, as by a conditional random field."""
        return self.by_token and self.head.depends_on != "target"

    def loss(self) -> tuple[Tensor, Tensor]:
        return self.head.loss(self.hidden, self.targets, self.mask)


def _targets(head: Head, logits: Tensor, real: Tensor) -> tuple[Tensor, bool]:
    """Returns targets, and whether there is one at every position."""
    require.that(logits.dim() in (2, 3), f"its logits have {logits.dim()} axes, expected 2 or 3")
    if head.check_targets:
        own = list(islice(cycle(head.check_targets), len(real)))
        return torch.tensor(own, dtype=torch.float64), logits.dim() == 3
    if logits.dim() == 3:
        return torch.randint(OUTPUTS, real.shape), True
    if head.output_types == _NUMBERS:
        return torch.randn(len(real), dtype=torch.float64), False
    if head.output_types == _LABELS:
        return torch.randint(2, (len(real), OUTPUTS)).double(), False
    return torch.randint(OUTPUTS, real.shape[:1]), False


@contract_check(BATCHES, given=_HeadCase.of)
def shapes(case: _HeadCase) -> None:
    """Logits are (batch, length, outputs) or (batch, outputs); loss and count of real targets are scalars."""
    logits, real = case.head.logits(case.hidden, case.mask), case.mask
    outputs = 1 if case.head.output_types == _NUMBERS else OUTPUTS
    expected = (*real.shape, outputs) if case.by_token else (len(real), outputs)
    require.equal(tuple(logits.shape), expected, "the shape of the logits")
    require.finite(logits, "a logit")
    loss, count = case.loss()
    require.equal((tuple(loss.shape), tuple(count.shape)), ((), ()), "the shape of the loss and the count")
    require.that(not count.is_floating_point(), f"the count is {count!r}, expected a whole number")
    require.equal(int(count), int(real.sum()) if case.by_token else len(real), "the number of targets")


@contract_check(product((False, True), BATCHES))
def the_loss_is_cross_entropy(subject: Subject, case: tuple[bool, PaddedBatch]) -> None:
    """The loss is the summed cross-entropy in nats, in training against smoothed targets.

    For numbers it is least, zero, where they are predicted exactly. A head that predicts the targets of a
    sequence together, or has targets of its own, is only compared with its own likelihoods.
    """
    training, batch = case
    given = _HeadCase.of(subject, batch, label_smoothing=0.2)
    head, targets = given.head, given.targets
    if given.jointly or head.check_targets:
        return
    head.train(training)
    state = torch.get_rng_state()
    logits = head.logits(given.hidden, given.mask)
    torch.set_rng_state(state)  # a head may drop out: the same in both passes
    loss, _ = given.loss()
    smoothing = 0.2 if training else 0.0
    if head.output_types == _NUMBERS:
        require.that(loss > 0, "the loss of numbers that are not those predicted is not above zero")
        given.targets = logits[:, 0].detach()
        torch.set_rng_state(state)
        loss, expected = given.loss()[0], torch.zeros_like(loss)
    elif head.output_types == _LABELS:
        smoothed = targets * (1 - smoothing) + smoothing / 2
        expected = binary_cross_entropy_with_logits(logits, smoothed, reduction="sum")
    else:
        if given.by_token:
            logits, targets = logits[given.mask], targets[given.mask]
        expected = cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    mode = f"{'training' if training else 'evaluation'} mode"
    require.close(loss, expected, f"the loss in {mode} is {float(loss):.4g}, expected {float(expected):.4g}")


@contract_check(PADDED, given=_HeadCase.of)
def padding_does_not_count(case: _HeadCase) -> None:
    """Values at padding change neither the loss nor the prediction, and get no gradient."""
    head, hidden, real = case.head, case.hidden, case.mask
    changed = torch.where(real[..., None], hidden, 5 * torch.randn_like(hidden)).requires_grad_()
    other = case.targets.masked_fill(~real, 3) if case.by_token else case.targets
    for training in (True, False):
        head.train(training)
        with torch.random.fork_rng(devices=[]):  # a head may drop out: the same in both passes
            loss, _ = head.loss(changed, other, real)
        mode = f"in {'training' if training else 'evaluation'} mode"
        require.close(loss, case.loss()[0], f"{mode} the loss changes with values at padding")
        (gradient,) = torch.autograd.grad(loss, changed)
        require.that((gradient[~real].abs() < 1e-9).all(), f"{mode} the loss has a gradient at padding")
    if not case.by_token:
        found = head.logits(changed, real)
        require.close(found, head.logits(hidden, real), "the prediction changes with values at padding")


@contract_check(PADDED[:4])
def the_loss_adds_up(subject: Subject, batch: PaddedBatch) -> None:
    """Sums and counts of chunks are those of the whole: chunks of the batch and, by token, of the length.

    Chunks of the length do not apply if the targets of a sequence are predicted together.
    """
    case = _HeadCase.of(subject, batch)
    whole, count = case.loss()
    for axis in (0, 1) if case.by_token and not case.jointly else (0,):
        chunks = [part.tensor_split([1], dim=axis) for part in (case.hidden, case.targets, case.mask)]
        parts = [case.head.loss(*chunk) for chunk in zip(*chunks, strict=True)]
        total, number = (torch.stack(values).sum() for values in zip(*parts, strict=True))
        chunks_of = f"chunks of the {('batch', 'length')[axis]}"
        require.equal(int(number), int(count), f"the sum of the counts of {chunks_of}")
        require.close(total, whole, f"the losses of {chunks_of} do not add up: it must be a sum")


@contract_check()
def without_real_targets_there_is_no_loss(subject: Subject) -> None:
    """A chunk without a real target is harmless: if targets are tokens it adds nothing."""
    case = _HeadCase.of(subject, FULL[1])
    loss, count = case.head.loss(case.hidden, case.targets, torch.zeros_like(case.mask))
    require.finite(loss, "the loss without any real token")
    if case.by_token:
        require.equal((float(loss), int(count)), (0.0, 0), "without a real target the loss and the count")


@contract_check(BATCHES, given=_HeadCase.of)
def likelihoods_are_those_of_the_loss(case: _HeadCase) -> None:
    """The likelihoods of examples add up to the loss in evaluation mode, and count the same targets.

    No more of an example's targets are right than it has; for numbers `correct` is None.
    """
    loss, count = case.loss()
    found = case.head.likelihoods(case.hidden, case.targets, case.mask)
    for name in ("losses", "targets", *["log_probabilities"] * case.head.probabilities):
        values = getattr(found, name)
        require.that(values is not None, f"{name} is None, which is for heads without `probabilities`")
        require.equal(tuple(values.shape), (len(case.mask),), f"the shape of {name}")
    require.close(found.losses.double().sum(), loss.double(), "the losses add up to another loss")
    require.equal(int(found.targets.sum()), int(count), "the number of targets that likelihoods count")
    numbers = case.head.output_types == _NUMBERS
    require.equal(found.correct is None, numbers, "that `correct` is None, which only numbers have,")
    if found.correct is not None:
        sound = (found.correct >= 0) & (found.correct <= found.targets)
        require.that(sound.all(), f"{found.correct.tolist()} of {found.targets.tolist()} targets are right")


@contract_check(BATCHES[1:])
def rows_are_independent(subject: Subject, batch: PaddedBatch) -> None:
    """A sequence gets the same scores in a batch as alone, and a token scores of its own hidden state."""
    case = _HeadCase.of(subject, batch)
    head, hidden, real, whole = case.head, case.hidden, case.mask, case.head.logits(case.hidden, case.mask)
    for row, marks in enumerate(real):
        alone = head.logits(hidden[row, marks][None], marks[marks][None])[0]
        expected = whole[row, marks] if case.by_token else whole[row]
        require.close(expected, alone, f"row {row} gets other scores in the batch than alone")
    if case.by_token:
        changed = torch.cat([hidden[:, :1], torch.randn_like(hidden[:, 1:])], dim=1)
        require.close(head.logits(changed, real)[:, 0], whole[:, 0], "scores change with later hidden states")


@contract_check()
def a_tied_embedding_is_left_alone(subject: Subject) -> None:
    """A head that receives the weight of an embedding never redraws it, and keeps no copy of it."""
    embedding = nn.Parameter(torch.randn(OUTPUTS, subject.model.width))
    before = embedding.detach().clone()
    head: Head = subject.create(tied=embedding)
    draw_own_values(head, 1)
    require.that(torch.equal(embedding, before), "the head redraws the embedding that it receives")
    for name, parameter in head.named_parameters():
        copied = parameter is not embedding and torch.equal(parameter, before)
        require.that(not copied, f"{name} is a copy of the embedding, which is trained apart from it")


def everything(head: Head, hidden: Tensor, real: Tensor) -> Tensor:
    """Returns a head's logits and loss on a padded batch, end to end."""
    logits = head.logits(hidden, real)
    targets = torch.zeros_like(_targets(head, logits, real)[0])
    loss, _ = head.loss(hidden, targets.to(hidden.dtype) if targets.is_floating_point() else targets, real)
    return torch.cat([logits.flatten(), loss[None].to(logits.dtype)])
