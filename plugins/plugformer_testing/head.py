"""The contract of heads: see plugformer.interfaces.head."""

from itertools import cycle, islice

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from plugformer.interfaces import Head, OutputType
from plugformer.model import draw_own_values
from plugformer_testing.check import check, fail, require, require_close, require_finite
from plugformer_testing.layout import FULL, LAYOUTS, PADDED, Layout
from plugformer_testing.subject import OUTPUTS, Subject

Example = tuple[
    Float[Tensor, "batch length width"], Shaped[Tensor, " batch *more"], Bool[Tensor, "batch length"]
]

_NUMBERS = frozenset({OutputType.NUMBER})
_LABELS = frozenset({OutputType.LABELS})


@check(LAYOUTS)
def shapes(subject: Subject, layout: Layout) -> None:
    """Logits are (batch, length, outputs) or (batch, outputs); loss and count are scalars."""
    head, (hidden, targets, real), _ = _case(subject, layout)
    logits = head.logits(hidden, real)
    outputs = _outputs(subject)
    expected = ((*real.shape, outputs), (len(real), outputs))
    if tuple(logits.shape) not in expected:
        fail(f"logits have shape {tuple(logits.shape)}, expected one of {expected}")
    require_finite(logits, "logits are not finite")
    loss, count = head.loss(hidden, targets, real)
    require(loss.dim() == 0, f"the loss has shape {tuple(loss.shape)}, expected a scalar")
    if not (count.dim() == 0 and not count.is_floating_point()):
        fail(f"the count is {count!r}, expected a whole number")


@check(LAYOUTS)
def the_count_is_that_of_real_targets(subject: Subject, layout: Layout) -> None:
    """The loss comes with the number of real targets: of tokens, or of sequences."""
    head, (hidden, targets, real), by_token = _case(subject, layout)
    expected = int(real.sum()) if by_token else len(real)
    count = int(head.loss(hidden, targets, real)[1])
    require(count == expected, f"the loss counts {count} targets, {expected} are real")


@check(LAYOUTS)
def evaluation_loss_is_plain_cross_entropy(subject: Subject, layout: Layout) -> None:
    """In evaluation mode the loss is the summed cross-entropy in nats, whatever the label smoothing.

    Of numbers it is least, zero, where they are predicted exactly. A head that predicts targets of a sequence
    together, or has targets of its own, has likelihoods of its own, with which it is compared elsewhere.
    """
    _loss_is_cross_entropy(subject, layout, training=False)


@check(LAYOUTS)
def training_loss_is_smoothed(subject: Subject, layout: Layout) -> None:
    """In training mode the loss is the summed cross-entropy against targets smoothed by the model's rate.

    Of numbers, of targets predicted together and of a head's own, nothing is.
    """
    _loss_is_cross_entropy(subject, layout, training=True)


@check(PADDED)
def padding_does_not_count(subject: Subject, layout: Layout) -> None:
    """What stands at padding changes neither the loss nor the prediction, and gets no gradient."""
    head, (hidden, targets, real), by_token = _case(subject, layout)
    changed = torch.where(real[..., None], hidden, 5 * torch.randn_like(hidden)).requires_grad_()
    other = targets.masked_fill(~real, 3) if by_token else targets
    for mode in ("training", "evaluation"):
        head.train(mode == "training")
        with torch.random.fork_rng(devices=[]):  # a head may drop out: the same in both passes
            loss, _ = head.loss(changed, other, real)
        message = f"in {mode} mode the loss changes with what stands at padding"
        require_close(loss, head.loss(hidden, targets, real)[0], message)
        (gradient,) = torch.autograd.grad(loss, changed)
        none = bool((gradient[~real].abs() < 1e-9).all())
        require(none, f"in {mode} mode the loss has a gradient at padding")
    if not by_token:
        expected, found = (head.logits(each, real) for each in (hidden, changed))
        require_close(found, expected, "the prediction changes with what stands at padding")


@check((PADDED[0], PADDED[1], PADDED[2], PADDED[3]))
def the_loss_adds_up(subject: Subject, layout: Layout) -> None:
    """Sums and counts of chunks are those of the whole: chunks of the batch and, by token, of the length.

    Not of the length where the targets of a sequence are predicted together.
    """
    head, (hidden, targets, real), by_token = _case(subject, layout)
    whole, count = head.loss(hidden, targets, real)
    axes = (0, 1) if by_token and not _together(head, by_token) else (0,)
    for axis in axes:
        chunks = [part.tensor_split([1], dim=axis) for part in (hidden, targets, real)]
        parts = [head.loss(*chunk) for chunk in zip(*chunks, strict=True)]
        total, number = (torch.stack(each).sum() for each in zip(*parts, strict=True))
        chunks_of = f"chunks of the {('batch', 'length')[axis]} do not add up"
        require(int(number) == int(count), f"counts of {chunks_of}: {int(number)}, not {int(count)}")
        require_close(total, whole, f"losses of {chunks_of}: it must be a sum")


@check()
def without_real_targets_there_is_no_loss(subject: Subject) -> None:
    """A chunk without a real target is harmless: if targets are tokens it adds nothing."""
    head, (hidden, targets, real), by_token = _case(subject, FULL[1])
    loss, count = head.loss(hidden, targets, torch.zeros_like(real))
    require_finite(loss, "the loss without any real token is not finite")
    said = f"the loss is {float(loss):g} over {int(count)} targets"
    nothing = (float(loss), int(count)) == (0, 0)
    require(nothing or not by_token, f"without a real target {said}, expected 0 over 0")


@check(LAYOUTS)
def likelihoods_are_those_of_the_loss(subject: Subject, layout: Layout) -> None:
    """The likelihoods of examples add up to the loss in evaluation mode, and count the same targets.

    No more of an example's targets are right than it has; of numbers `correct` is None.
    """
    head, (hidden, targets, real), _ = _case(subject, layout)
    loss, count = head.loss(hidden, targets, real)
    found = head.likelihoods(hidden, targets, real)
    for name, values in (("log_probabilities", found.log_probabilities), ("targets", found.targets)):
        require(values.shape == (len(real),), f"{name} of {len(real)} examples are {tuple(values.shape)}")
    total = -found.log_probabilities.double().sum()
    require_close(total, loss.double(), "the log-probabilities add up to another loss")
    require(int(found.targets.sum()) == int(count), f"they count {int(found.targets.sum())} targets")
    numbers = head.output_types == _NUMBERS
    if found.correct is None:
        require(numbers, "correct is None, though an output is right or wrong")
    else:
        require(not numbers, "a number is called right")
        sound = (found.correct >= 0) & (found.correct <= found.targets)
        require(bool(sound.all()), f"{found.correct.tolist()} of {found.targets.tolist()} targets are right")


@check(LAYOUTS[1:])
def rows_are_independent(subject: Subject, layout: Layout) -> None:
    """A sequence in a batch gets the scores that it gets alone, without its padding."""
    head, (hidden, _, real), by_token = _case(subject, layout)
    whole = head.logits(hidden, real)
    for row, marks in enumerate(real):
        alone = head.logits(hidden[row, marks][None], marks[marks][None])[0]
        expected = whole[row, marks] if by_token else whole[row]
        require_close(expected, alone, f"row {row} gets other scores in the batch than alone")


@check(LAYOUTS[1:])
def positions_are_independent(subject: Subject, layout: Layout) -> None:
    """If targets are tokens, the scores at a position depend on its own hidden state alone."""
    head, (hidden, _, real), by_token = _case(subject, layout)
    if not by_token:
        return
    changed = torch.cat([hidden[:, :1], torch.randn_like(hidden[:, 1:])], dim=1)
    one, other = (head.logits(each, real)[:, 0] for each in (hidden, changed))
    require_close(other, one, "the scores at the first position change with later hidden states")


@check()
def a_tied_embedding_is_left_alone(subject: Subject) -> None:
    """A head that is given the embedding's weight never redraws it, and keeps no copy of it."""
    embedding = nn.Parameter(torch.randn(OUTPUTS, subject.model.width))
    before = embedding.detach().clone()
    head: Head = subject.create(tied=embedding)
    draw_own_values(head, 1)
    require(torch.equal(embedding, before), "the head redraws the embedding that it was given")
    copied = [
        name
        for name, parameter in head.named_parameters()
        if parameter is not embedding and parameter.shape == before.shape and torch.equal(parameter, before)
    ]
    require(not copied, f"{', '.join(copied)} is a copy of the embedding: it is trained apart from it")


def _loss_is_cross_entropy(subject: Subject, layout: Layout, *, training: bool) -> None:
    head, (hidden, targets, real), by_token = _case(subject, layout, label_smoothing=0.2)
    if _together(head, by_token) or head.check_targets:
        return
    head.train(training)
    state = torch.get_rng_state()
    logits = head.logits(hidden, real)
    torch.set_rng_state(state)  # a head may drop out: the same in both passes
    if head.output_types == _NUMBERS:
        exact = head.loss(hidden, logits[:, 0].detach(), real)[0]
        require_close(exact, torch.zeros_like(exact), "the loss of numbers predicted exactly is not zero")
        torch.set_rng_state(state)
        if not float(head.loss(hidden, targets, real)[0]) > 0:
            fail("the loss of numbers that are not those predicted is not above zero")
        return
    loss, _ = head.loss(hidden, targets, real)
    smoothing = 0.2 if training else 0.0
    if head.output_types == _LABELS:
        smoothed = targets * (1 - smoothing) + smoothing / 2
        expected = binary_cross_entropy_with_logits(logits, smoothed, reduction="sum")
    else:
        if by_token:
            logits, targets = logits[real], targets[real]
        expected = cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    kind = "smoothed cross-entropy in training" if training else "plain cross-entropy in evaluation"
    message = f"the loss is {float(loss):.4g}, the summed {kind} mode {float(expected):.4g}"
    require_close(loss, expected, message)


def _case(subject: Subject, layout: Layout, **sizes: float) -> tuple[Head, Example, bool]:
    """Returns a head, hidden states and targets for it, and whether it predicts at every position."""
    head: Head = subject.perturbed(torch.float64, outputs=_outputs(subject), **sizes)
    hidden = torch.randn(*layout.mask.shape, subject.model.width, dtype=torch.float64)
    by_token = _by_token(head.logits(hidden, layout.mask))
    return head, (hidden, _targets(head, layout.mask, by_token), layout.mask), by_token


def _by_token(logits: Tensor) -> bool:
    require(logits.dim() in (2, 3), f"its logits have {logits.dim()} axes, expected 2 or 3")
    return logits.dim() == 3


def _targets(
    head: Head, real: Bool[Tensor, "batch length"], by_token: bool
) -> Shaped[Tensor, " batch *more"]:
    if head.check_targets:
        return torch.tensor(list(islice(cycle(head.check_targets), len(real))), dtype=torch.float64)
    if by_token:
        return torch.randint(OUTPUTS, real.shape)
    if head.output_types == _NUMBERS:
        return torch.randn(len(real), dtype=torch.float64)
    if head.output_types == _LABELS:
        return torch.randint(2, (len(real), OUTPUTS)).double()
    return torch.randint(OUTPUTS, real.shape[:1])


def _outputs(subject: Subject) -> int:
    """Returns the number of outputs: one of numbers."""
    return 1 if getattr(subject.component, "output_types", None) == _NUMBERS else OUTPUTS


def _together(head: Head, by_token: bool) -> bool:
    """Whether the targets of a sequence are predicted together, as by a conditional random field."""
    return by_token and type(head).likelihoods is not Head.likelihoods


def everything(head: Head, hidden: Tensor, real: Bool[Tensor, "batch length"]) -> Tensor:
    """Returns a head's logits and loss on a padded batch, end to end."""
    logits = head.logits(hidden, real)
    targets = torch.zeros_like(_targets(head, real, _by_token(logits)))
    loss, _ = head.loss(hidden, targets.to(hidden.dtype) if targets.is_floating_point() else targets, real)
    return torch.cat([logits.flatten(), loss[None].to(logits.dtype)])
