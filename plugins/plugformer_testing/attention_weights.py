"""Attention under observation: what is shown must be what is used."""

import torch
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import NoPositions, Observer
from plugformer_testing.attention import Reader, readers
from plugformer_testing.check import NotApplicable, check, fail, require, require_close
from plugformer_testing.layout import LAYOUTS, Layout, full
from plugformer_testing.probes import Collector, Eraser
from plugformer_testing.subject import CROSS, DECODER, ENCODER, Subject


@check(LAYOUTS)
def looking_changes_nothing(subject: Subject, layout: Layout) -> None:
    """With an observer the output and its gradient are those without one."""
    x = subject.tokens(*layout.mask.shape).requires_grad_()
    query = subject.tokens(len(layout.rows), 3)
    for reader in readers(subject, layout, ENCODER, DECODER, CROSS):
        outputs = [reader.read(x, query, observer) for observer in (None, Collector())]
        require_close(outputs[1], outputs[0], "the output changes when somebody looks")
        plain, observed = (torch.autograd.grad(output.square().sum(), x)[0] for output in outputs)
        require_close(observed, plain, "gradients change when somebody looks")


@check(LAYOUTS)
def shown_weights_respect_the_mask(subject: Subject, layout: Layout) -> None:
    """Recorded weights are (batch, maps, query, key), zero at padding and at the future, and finite."""
    real = layout.mask
    batch, length = real.shape
    allowed = real[:, None, None, :] & torch.ones(length, length, dtype=torch.bool).tril()
    for reader in readers(subject, layout, DECODER):
        collector = Collector()
        reader.read(subject.tokens(batch, length), observer=collector)
        for weights in _weights(collector):
            fits = weights.dim() == 4 and len(weights) == batch and weights.shape[2:] == (length, length)
            said = f"recorded weights have shape {tuple(weights.shape)}"
            require(fits, f"{said}, expected ({batch}, maps, {length}, {length})")
            at_real = weights.masked_fill(~real[:, None, :, None], 0.0)
            require(bool(at_real.isfinite().all()), "recorded weights are not finite")
            if not (at_real.masked_fill(allowed, 0.0).abs() < 1e-9).all():
                fail("recorded weights are not zero at keys that the mask hides")


@check(LAYOUTS[:4])
def shown_weights_are_those_used(subject: Subject, layout: Layout) -> None:
    """The recorded weights are the ones by which the output is computed.

    Shown in one of two ways. By recomputing: with one head, what a query reads from several keys is the sum
    of what it reads from each alone, each times its weight. Or by erasing: with the recorded weights set to
    zero before they are used, the output no longer depends on the memory.
    """
    memory, query = subject.tokens(*layout.mask.shape), subject.tokens(len(layout.rows), 2)
    there, keys = subject.at(CROSS), layout.at(NoPositions())
    with torch.no_grad():
        try:
            recomputed = _recomputes(Reader(there.perturbed(heads=1), CROSS, keys), memory, query)
        except ConfigurationError:  # it needs more heads
            recomputed = False
        require(
            recomputed or _erases(Reader(there.perturbed(), CROSS, keys), memory, query),
            "the weights shown are not those used: the output is not the sum over keys that they say, and "
            "overwriting them changes nothing",
        )


def _recomputes(reader: Reader, memory: Tensor, query: Tensor) -> bool:
    """Whether weighted single reads add up to the output of an attention with one head."""
    collector, expected = Collector(), torch.zeros_like(query)
    output = reader.read(memory, query, collector)
    (weights, *others) = _weights(collector)
    if others or weights.shape[1] != 1:
        return False
    alone = reader.at(full(len(memory), 1).at(NoPositions()))
    for key in range(memory.shape[1]):
        expected += weights[:, 0, :, key, None] * alone.read(memory[:, key, None], query)
    return torch.allclose(output, expected, atol=1e-5, rtol=1e-5)


def _erases(reader: Reader, memory: Tensor, query: Tensor) -> bool:
    """Whether nothing is read from the memory once the recorded weights are zero."""

    def depends(observer: Observer | None) -> bool:
        read, other = (reader.read(each, query, observer) for each in (memory, memory + 1.0))
        return not torch.allclose(read, other, atol=1e-5, rtol=1e-5)

    return depends(None) and not depends(Eraser())


def _weights(collector: Collector) -> list[Tensor]:
    """Returns the recorded weights.

    Raises:
        NotApplicable: None were recorded: there are attentions without any.
    """
    if "weights" not in collector.taken:
        raise NotApplicable('it records no "weights": nothing is shown that could be wrong')
    return collector.taken["weights"]
