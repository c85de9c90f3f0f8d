"""The contract of heads, see plugformer.interfaces.head."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from plugformer.errors import ConfigurationError
from plugformer.interfaces import ABSENT, Head, HeadInput, Level, Likelihoods, OutputType, Tokens
from plugformer.model.build import draw_own_values
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.probes import BATCHES, FULL, PADDED, PaddedBatch
from plugformer_testing.subject import CHOICE, OUTPUTS, PAIR, Subject

_NUMBERS = frozenset({OutputType.NUMBER, OutputType.NUMBERS})
_LABELS = frozenset({OutputType.LABELS})
_WITHOUT_TARGETS = PaddedBatch((".xxx.", "xxxxx", "x.x.x"))  # also tokens that are given, or not labeled
_BATCHES, _PADDED = (*BATCHES, _WITHOUT_TARGETS), (*PADDED, _WITHOUT_TARGETS)
_SOURCE_PADDING = "padding of the source (see `context.source.mask`)"


@dataclass
class _HeadCase:
    """A perturbed head in double precision, with random hidden states and targets."""

    head: Head
    hidden: Tensor
    context: HeadInput
    targets: Tensor
    outputs: int

    @classmethod
    def of(cls, subject: Subject, batch: PaddedBatch) -> "_HeadCase":
        real = _rows(subject, batch.mask)
        targets, outputs = _targets(subject, real)
        head: Head = subject.perturbed(outputs=outputs)
        hidden = subject.tokens(*real.shape)
        return cls(head, hidden, _context(head, real, hidden), targets, outputs)

    @property
    def mask(self) -> Tensor:
        """Which hidden states count."""
        return self.context.real

    @property
    def by_token(self) -> bool:
        """Whether there is a target at every real position."""
        return _by_token(type(self.head))

    @property
    def of_vectors(self) -> bool:
        """Whether the hidden states are those of texts, which are compared."""
        return Level.VECTOR in self.head.levels

    def loss(self) -> tuple[Tensor, Tensor]:
        with torch.random.fork_rng(devices=[]):  # a head may drop out: the same in all passes
            return self.head.loss(self.hidden, self.targets, self.context)

    def likelihoods(self) -> Likelihoods:
        return self.head.likelihoods(self.hidden, self.targets, self.context)

    def logits(self) -> Tensor:
        return self.head.logits(self.hidden, self.context)

    def part(self, rows: Any, positions: Any = slice(None)) -> "_HeadCase":
        """Returns the case of a part of the batch, and of the positions."""
        context = self.context.select(torch.arange(len(self.mask))[rows])
        read = context.cross_attention
        context.real, context.cross_attention = (
            context.real[:, positions],
            None if read is None else read[:, :, positions],
        )
        targets = self.targets[rows]
        targets = targets[:, positions] if self.by_token else targets
        return replace(self, hidden=self.hidden[rows][:, positions], targets=targets, context=context)

    def alone(self, row: int) -> "_HeadCase":
        """Returns the case of one row without padding, also of its targets."""
        found = self.part(slice(row, row + 1), self.mask[row])
        if found.targets.dim() == 1 or self.by_token:
            return found
        present = (found.targets.isfinite() & (found.targets != ABSENT))[0]
        return replace(found, targets=found.targets[:, present])

    def weighted(self, weights: Tensor) -> "_HeadCase":
        """Returns the case with these weights of targets."""
        return replace(self, context=replace(self.context, weights=weights))

    def chunks(self, axis: int) -> "tuple[_HeadCase, _HeadCase]":
        """Returns the first row or position, and the others."""
        first, others = slice(None, 1), slice(1, None)
        if axis == 0:
            return self.part(first), self.part(others)
        return self.part(slice(None), first), self.part(slice(None), others)


def _by_token(head: type[Head]) -> bool:
    return not head.levels.isdisjoint({Level.NEXT_TOKEN, Level.TOKEN})


def _context(head: Head, real: Tensor, hidden: Tensor) -> HeadInput:
    """Returns the context of a batch, with all that the head reads: three tokens, or two, of a source."""
    if not head.reads:
        return HeadInput(real)
    batch, length = real.shape
    numbers = torch.arange(batch * 3).view(batch, 3)
    mask = (torch.arange(3) < 2) | (numbers[:, :1] % 2 > 0)
    ids = (4 + numbers % 3).masked_fill(~mask, 0)
    memory = (1 + numbers[..., None] * hidden.shape[-1] + torch.arange(hidden.shape[-1])).sin()
    places = torch.arange(batch * length * 3).view(batch, 1, length, 3)
    weights = places.sin().masked_fill(~mask[:, None, None], -torch.inf).softmax(dim=-1)
    return HeadInput(real, Tokens(ids, mask), memory.to(hidden), weights.to(hidden))


def _rows(subject: Subject, real: Tensor) -> Tensor:
    """Returns a mask of hidden states: at level `vector` two rows each, or more and padding behind them."""
    if subject.inputs not in (CHOICE, PAIR):
        return real
    if subject.inputs == PAIR:
        return real.new_ones(len(real), 2)
    counts = real.sum(dim=1, keepdim=True).clamp(min=2)
    return torch.arange(max(real.shape[1], 2)) < counts


def _require_shape(head: Head, logits: Tensor, real: Tensor, outputs: int) -> None:
    if Level.VECTOR in head.levels:
        outputs = logits.shape[-1]
    expected = (*real.shape, outputs) if _by_token(type(head)) else (len(real), outputs)
    require.shaped(logits, expected, "what `logits` returns")


def _targets(subject: Subject, real: Tensor) -> tuple[Tensor, int]:
    """Returns random targets, with values at padding, and the number of outputs.

    Of pairs they are different numbers, which tell the texts apart; of candidates those of the right ones.
    """
    head: Any = subject.component
    given: tuple[Tensor, int] | None = head.check_case(real)
    if given is not None:
        return given
    shape = real.shape if _by_token(head) else real.shape[:1]
    if head.output_types <= _NUMBERS:
        return torch.randn(shape, dtype=torch.float64), 1
    if head.output_types == _LABELS:
        return torch.randint(2, (*shape, OUTPUTS)).double(), OUTPUTS
    if subject.inputs == PAIR:
        return torch.arange(len(real)), OUTPUTS
    if subject.inputs == CHOICE:
        return torch.arange(len(real)) % (real.sum(dim=1) - 1), OUTPUTS
    return torch.randint(OUTPUTS, shape), OUTPUTS


@contract_check(cases=_BATCHES, given=_HeadCase.of)
def shapes(case: _HeadCase) -> None:
    """Logits are (batch, length, outputs) or (batch, outputs); loss and count of real targets are scalars."""
    logits, real = case.logits(), case.mask
    _require_shape(case.head, logits, real, case.outputs)
    require.finite(logits.masked_fill(logits == -torch.inf, 0.0) if case.of_vectors else logits, "a logit")
    loss, count = case.loss()
    require.equal((tuple(loss.shape), tuple(count.shape)), ((), ()), "the shape of the loss and the count")
    require.finite(loss, "the loss")
    require.that(not count.is_floating_point(), f"the count is {count!r}, expected a whole number")
    require.equal(int(count), int(real.sum()) if case.by_token else len(real), "the number of targets")


@contract_check(cases=_BATCHES, given=_HeadCase.of)
def likelihoods_are_those_of_the_loss(case: _HeadCase) -> None:
    """In evaluation mode the `losses` of examples add up to the loss, and their targets to its count.

    `log_probabilities` is None if the head has no `probabilities`. No more of an example's targets are right
    than it has; `correct` is None for numbers.
    """
    loss, count = case.loss()
    found = case.likelihoods()
    require.close(found.losses.double().sum(), loss.double(), "the losses add up to another loss")
    require.equal(int(found.targets.sum()), int(count), "the number of targets that likelihoods count")
    absent = found.log_probabilities is None
    declared = f"of a head with probabilities = {case.head.probabilities}"
    require.equal(absent, not case.head.probabilities, f"that log_probabilities is None, {declared},")
    for name, values in found._asdict().items():
        if values is not None:
            require.equal(tuple(values.shape), (len(case.mask),), f"the shape of {name}")
            require.finite(values, f"{name} of likelihoods")
    if case.head.output_types <= _NUMBERS:
        require.equal(found.correct, None, "`correct` of numbers")
    if found.correct is not None:
        sound = (found.correct >= 0) & (found.correct <= found.targets)
        require.that(sound.all(), f"{found.correct.tolist()} of {found.targets.tolist()} targets are right")


@contract_check(cases=PADDED[1:], given=_HeadCase.of)
def probabilities_are_true(case: _HeadCase) -> None:
    """The probabilities of all answers to an example add up to 1, if `probabilities` is True.

    This is tried if a target depends on nothing else, and is a class or a set of labels.
    """
    length = None if case.of_vectors else 1
    head, one = case.head, case.part(slice(None, 1), slice(None, length))
    if not head.probabilities or head.depends_on != "target":
        return
    if head.output_types == _LABELS:
        answers = torch.tensor([*product((0.0, 1.0), repeat=case.outputs)], dtype=torch.float64)
    elif case.targets.is_floating_point():
        return
    else:
        answers = torch.arange(one.logits().shape[-1])
        answers = answers[:, None] if case.by_token else answers
    copies = torch.zeros(len(answers), dtype=torch.int64)
    found = head.likelihoods(one.hidden[copies], answers, one.context.select(copies)).log_probabilities
    total = found.double().exp().sum() if found is not None else torch.zeros(())
    require.close(total, torch.ones_like(total), f"probabilities of all answers add up to {float(total):.4g}")


@contract_check(cases=_BATCHES, given=_HeadCase.of)
def the_best_is_as_probable_as_it_says(case: _HeadCase) -> None:
    """The outputs of `best` have the log-probabilities that it returns, and are all `correct` as targets.

    This is tried if targets are classes with probabilities.
    """
    head, classes = case.head, not case.targets.is_floating_point()
    if not classes or not head.probabilities:
        return
    outputs, log_probabilities = head.best(case.hidden, case.context)
    found = replace(case, targets=outputs).likelihoods()
    if found.log_probabilities is not None:
        probable = found.log_probabilities.double()
        require.close(log_probabilities.double(), probable, "best returns other log-probabilities")
    if found.correct is not None:
        require.equal(
            found.correct.tolist(), found.targets.tolist(), "how many of its best outputs are right"
        )


@contract_check(cases=_PADDED, given=_HeadCase.of)
def padding_does_not_count(case: _HeadCase) -> None:
    """Values at padding change neither the loss nor the prediction, and get no gradient.

    Nor does padding of the source, and the memory there, if the head reads these.
    """
    head, hidden, real = case.head, case.hidden, case.mask
    changed = torch.where(real[..., None], hidden, 5 * torch.randn_like(hidden)).requires_grad_()
    other = case.targets.masked_fill(~real, 3) if case.by_token else case.targets
    for training in (True, False):
        head.train(training)
        loss, _ = replace(case, hidden=changed, targets=other).loss()
        mode = f"in {'training' if training else 'evaluation'} mode"
        require.close(loss, case.loss()[0], f"{mode} the loss changes with values at padding")
        (gradient,) = torch.autograd.grad(loss, changed)
        require.that((gradient[~real].abs() < 1e-9).all(), f"{mode} the loss has a gradient at padding")
    if not case.by_token:
        found = head.logits(changed, case.context)
        require.close(found, case.logits(), "the prediction changes with values at padding")
    if head.reads:
        padded = replace(case, context=_more_padded(case.context))
        require.close(padded.loss()[0], case.loss()[0], f"the loss changes with {_SOURCE_PADDING}")
        counted = real if case.by_token else slice(None)
        found, expected = padded.logits()[counted], case.logits()[counted]
        require.close(found, expected, f"the logits change with {_SOURCE_PADDING}")


def _more_padded(context: HeadInput) -> HeadInput:
    """Returns the context with one more token of padding in the source, and another memory at padding."""
    ids, mask = (functional.pad(each, (0, 1)) for each in (context.source.ids, context.source.mask))
    memory, weights = context.memory, context.cross_attention
    if memory is not None:
        memory = functional.pad(memory, (0, 0, 0, 1))
        memory = torch.where(mask[..., None], memory, 5 * torch.randn_like(memory))
    weights = None if weights is None else functional.pad(weights, (0, 1))
    return replace(context, source=Tokens(ids, mask), memory=memory, cross_attention=weights)


@contract_check(cases=_PADDED, given=_HeadCase.of)
def the_loss_adds_up(case: _HeadCase) -> None:
    """Sums and counts of parts are those of the whole, if the parts do not depend on each other.

    Parts are rows of the batch, and positions, too, if `depends_on` is `target`. If it is `batch`, the sums
    are others, and the order of the rows does not matter.
    """
    (whole, count), depends_on = case.loss(), case.head.depends_on
    for axis in (0, 1) if case.by_token and depends_on == "target" else (0,):
        parts = [part.loss() for part in case.chunks(axis)]
        total, number = (torch.stack(values).sum() for values in zip(*parts, strict=True))
        chunks_of = f"chunks of the {('batch', 'length')[axis]}"
        if depends_on == "batch":
            message = "depends_on is 'batch', but the losses of parts add up: it depends on less"
            require.that(not torch.isclose(total, whole, rtol=1e-9), message)
            turned, _ = case.part(torch.arange(len(case.mask)).roll(1)).loss()
            require.close(turned, whole, "the loss changes with the order of the examples")
            return
        require.equal(int(number), int(count), f"the sum of the counts of {chunks_of}")
        reason = f"it must be a sum, or `depends_on` is more than {depends_on!r}"
        require.close(total, whole, f"the losses of {chunks_of} do not add up: {reason}")


@contract_check(cases=PADDED[1:], given=_HeadCase.of)
def weights_multiply_the_losses(case: _HeadCase) -> None:
    """Weights multiply the losses of examples, or of targets, and change neither counts nor likelihoods.

    A head that has one loss for all targets of an example refuses weights of each with a ConfigurationError.
    """
    weights = torch.linspace(0, 2, len(case.mask), dtype=torch.float64)
    plain, found = case.likelihoods(), case.weighted(weights).likelihoods()
    require.close(found.losses.double(), plain.losses.double() * weights, "losses of weighted examples")
    for name in ("targets", "log_probabilities", "correct"):
        require.equal(str(getattr(found, name)), str(getattr(plain, name)), f"{name} with weights")
    every = [torch.full_like(weights, 2.0)]
    if case.by_token and case.head.depends_on == "target":
        every.append(torch.full(case.mask.shape, 2.0, dtype=torch.float64))
    for training, twice in product((True, False), every):
        case.head.train(training)
        (loss, count), (other, number) = case.loss(), case.weighted(twice).loss()
        mode = f"in {'training' if training else 'evaluation'} mode"
        require.close(other.double(), 2 * loss.double(), f"{mode}, the loss of targets with the weight 2")
        require.equal(int(number), int(count), "the number of targets with weights")
    if case.by_token:
        _weigh_targets(case)


def _weigh_targets(case: _HeadCase) -> None:
    """Weighs the first target of each row alone, or expects that weights of each target are refused."""
    weights = torch.zeros(case.mask.shape, dtype=torch.float64)
    weights[:, 0] = 0.5
    weights[~case.mask] = torch.nan  # any value
    try:
        loss, _ = case.weighted(weights).loss()
    except ConfigurationError:
        require.that(case.head.depends_on != "target", "weights of targets are refused, whose losses add up")
        return
    if case.head.depends_on == "target":
        first, _ = case.chunks(1)
        require.close(loss.double(), first.loss()[0].double() / 2, "the loss of weighted targets")


@contract_check()
def without_real_targets_there_is_no_loss(subject: Subject) -> None:
    """A chunk without a real target is harmless: if targets are tokens it adds nothing."""
    case = _HeadCase.of(subject, FULL[1])
    if case.of_vectors:  # every input has one
        return
    case.context.real = torch.zeros_like(case.mask)
    loss, count = case.loss()
    require.finite(loss, "the loss without any real token")
    if case.by_token:
        require.equal((float(loss), int(count)), (0.0, 0), "without a real target the loss and the count")


@contract_check(cases=_BATCHES[1:], given=_HeadCase.of)
def rows_are_independent(case: _HeadCase) -> None:
    """An example has the same scores and loss in a batch as alone, a token scores of its own hidden state.

    The vectors of level `vector` are those of their hidden states alone; a row that an example lacks has no
    probability: its score is minus infinity, or very low. Scores are not compared if `depends_on` is `batch`.
    """
    if Level.VECTOR in case.head.levels:
        vectors = case.head.vectors(case.hidden)
        for at in zip(*case.mask.nonzero(as_tuple=True), strict=True):
            alone = case.head.vectors(case.hidden[at][None, None])[0, 0]
            require.close(vectors[at], alone, "a vector is another one alone than in the batch")
    head, hidden, whole = case.head, case.hidden, case.logits()
    if head.depends_on == "batch":
        return
    losses = case.likelihoods().losses
    advice = ": mask scores by `context.real`, also those of rows that an example lacks" * case.of_vectors
    for row, marks in enumerate(case.mask):
        example = case.alone(row)
        alone = example.logits()[0]
        expected = whole[row, marks] if case.by_token else whole[row, : len(alone)]
        require.close(expected, alone, f"row {row} gets other scores in the batch than alone")
        loss = example.likelihoods().losses[0]
        require.close(losses[row], loss, f"row {row} gets another loss in the batch than alone{advice}")
    if case.by_token:
        changed = torch.cat([hidden[:, :1], torch.randn_like(hidden[:, 1:])], dim=1)
        found = head.logits(changed, case.context)
        require.close(found[:, 0], whole[:, 0], "scores change with later hidden states")


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


def everything(subject: Subject, head: Head, hidden: Tensor, real: Tensor) -> Tensor:
    """Returns a head's logits and loss on a padded batch, end to end."""
    real = _rows(subject, real)
    hidden = hidden[:, : real.shape[1]]
    context = _context(head, real, hidden)
    targets = _targets(subject, real)[0]
    logits = head.logits(hidden, context)
    if not head.output_types <= _NUMBERS:  # of which some heads have one, whatever the model's outputs
        _require_shape(head, logits, real, OUTPUTS)
    logits = logits.masked_fill(logits == -torch.inf, 0.0)  # of absent candidates
    if subject.inputs != PAIR or targets.is_floating_point():
        targets = torch.zeros_like(targets)
    targets = targets.to(hidden.dtype) if targets.is_floating_point() else targets
    loss, _ = head.loss(hidden, targets, context)
    return torch.cat([logits.flatten(), loss[None].to(logits.dtype)])
