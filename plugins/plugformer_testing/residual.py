"""The contract of residual connections: see plugformer.interfaces.residual."""

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.interfaces import Place, Residual
from plugformer_testing.check import NotApplicable, check, fail, require, require_close, require_finite
from plugformer_testing.module import example
from plugformer_testing.probes import Function
from plugformer_testing.subject import PLACES, SUBLAYERS, Subject

ALONE = ("attention", "feed_forward")
"""What there is in a layer that reads no other stack."""

_RATES = {"attention": 0.7, "cross_attention": 1.3, "feed_forward": 2.1}


@check(((2, 3, 24), (1, 1, 24), (2, 0, 24), (0, 3, 24), (2, 3, 1), (2, 3, 35)))
def shapes(subject: Subject, shape: tuple[int, int, int]) -> None:
    """The stream keeps its shape: in any batch, at any length, for odd widths."""
    residual: Residual = subject.perturbed(width=shape[-1])
    output = residual(torch.randn(shape, dtype=torch.float64), _sublayers(SUBLAYERS))
    require(output.shape == shape, f"the output has shape {tuple(output.shape)}, the stream {shape}")
    require_finite(output, "the output is not finite")


@check((ALONE, SUBLAYERS))
def each_sublayer_runs_once(subject: Subject, names: Sequence[str]) -> None:
    """In evaluation mode each sublayer there is runs once, on hidden states of the stream's shape."""
    _require_runs(subject, names, training=False)


@check((ALONE, SUBLAYERS))
def no_sublayer_runs_twice_in_training(subject: Subject, names: Sequence[str]) -> None:
    """In training mode a sublayer may be left out, but runs at most once."""
    _require_runs(subject, names, training=True)


@check((ALONE, SUBLAYERS))
def every_sublayer_counts(subject: Subject, names: Sequence[str]) -> None:
    """What any of the sublayers puts out changes the stream."""
    residual: Residual = subject.perturbed(sublayers=names)
    x = _stream(subject)
    expected = residual(x, _sublayers(names))
    for name in names:
        changed = {**_sublayers(names), name: Function(lambda hidden: hidden.cos())}
        if torch.allclose(residual(x, changed), expected, atol=1e-9):
            fail(f"it makes no difference what {name} puts out")


@check((ALONE, SUBLAYERS))
def the_stream_goes_on(subject: Subject, names: Sequence[str]) -> None:
    """Where sublayers put out nothing, the stream before the layer still decides the one after it."""
    residual: Residual = subject.perturbed(sublayers=names)
    x = _stream(subject).requires_grad_()
    output = residual(x, {name: Function(torch.zeros_like) for name in names})
    weights = torch.linspace(0.5, 1.5, output.numel(), dtype=output.dtype).view(output.shape)
    if not output.requires_grad:
        fail("the stream does not reach the output but through sublayers")
    (gradient,) = torch.autograd.grad((output * weights).sum(), x, allow_unused=True)
    reached = gradient is not None and bool((gradient.abs() > 1e-9).any(dim=-1).all())
    require(reached, "the stream does not reach the output but through sublayers")


@check((ALONE, SUBLAYERS))
def tokens_stay_apart(subject: Subject, names: Sequence[str]) -> None:
    """Only sublayers exchange anything between tokens or sequences."""
    residual: Residual = subject.perturbed(sublayers=names)
    x = _stream(subject)
    alone = [residual(token[None, None], _sublayers(names)) for token in x.flatten(0, 1)]
    message = "a token's stream depends on other tokens though no sublayer reads them"
    require_close(torch.cat(alone, dim=1)[0], residual(x, _sublayers(names)).flatten(0, 1), message)


@check(PLACES)
def says_what_it_needs(subject: Subject, place: Place) -> None:
    """`final_norm` is true or false, and `gain` a finite number above zero, in any place of a model."""
    try:
        residual: Residual = subject.create(place=place)
    except ConfigurationError as error:
        raise NotApplicable(str(error)) from error
    require(isinstance(residual.final_norm, bool), f"final_norm is {residual.final_norm!r}, expected a bool")
    gain = residual.gain
    if not (isinstance(gain, int | float) and math.isfinite(gain) and gain > 0):
        fail(f"gain is {gain!r}, expected a finite number above zero")


def _require_runs(subject: Subject, names: Sequence[str], *, training: bool) -> None:
    residual: Residual = subject.perturbed(sublayers=names).train(training)
    sublayers, x = _sublayers(names), _stream(subject)
    residual(x, sublayers)
    for name, sublayer in sublayers.items():
        count = len(sublayer.given)
        require(count < 2, f"{name} runs {count} times: what it appends to a cache is there {count} times")
        require(training or count == 1, f"{name} does not run")
        for hidden in sublayer.given:
            if hidden.shape != x.shape:
                fail(f"{name} is given the shape {tuple(hidden.shape)}, the stream has {tuple(x.shape)}")


def _stream(subject: Subject) -> Tensor:
    return torch.randn(2, 3, subject.model.width, dtype=torch.float64)


def _sublayers(names: Sequence[str]) -> dict[str, Function]:
    """Returns sublayers that differ, each of which looks at one number at a time."""
    return {name: Function(partial(_waves, _RATES[name])) for name in names}


def _waves(rate: float, hidden: Tensor) -> Tensor:
    return (rate * hidden).sin()


def exercise(subject: Subject, residual: Residual, dtype: torch.dtype) -> Tensor:
    """Runs a layer of all sublayers on two rows of three tokens."""
    output: Tensor = residual(example(2, 3, subject.model.width, dtype=dtype), _sublayers(SUBLAYERS))
    return output
