"""What holds for every component that is a torch module, whatever its kind."""

import copy
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import config
from safetensors.torch import load_file
from torch import Tensor, nn

from plugformer.errors import ConfigurationError, NotExportableError, described
from plugformer.interfaces import Positions, Tokens
from plugformer.model.build import draw_own_values, refuse_hidden_values
from plugformer.registry import Kind
from plugformer.runs import own_tensors, save_tensors
from plugformer_blocks import exporting
from plugformer_testing import head, require
from plugformer_testing.contract import contract_check
from plugformer_testing.placed_attention import (
    PlacedAttention,
    Steps,
    attentions,
    built_in_attention,
)
from plugformer_testing.probes import (
    BATCHES,
    FULL,
    PADDED,
    PIECES,
    PaddedBatch,
    Pieces,
    Turning,
    example,
    full,
    gradients,
    require_gradients,
)
from plugformer_testing.subject import DECODER, ENCODER, PLACES, Subject
from plugformer_testing.tokenwise import compute

_BATCH = PADDED[1]
_STREAM = (Kind.ATTENTION, Kind.FEED_FORWARD, Kind.NORM, Kind.RESIDUAL)


def exercise(subject: Subject, module: Any, dtype: torch.dtype = torch.float64) -> Tensor:
    """Runs a component on the same small padded batch each time."""
    x = example(*_BATCH.mask.shape, subject.model.width, dtype=dtype)
    match subject.kind:
        case Kind.ATTENTION:
            return PlacedAttention(module, subject.place, _BATCH.at(Turning())).read(x)
        case Kind.POSITION:
            attention = copy.deepcopy(built_in_attention(subject)).to(dtype)
            return PlacedAttention(attention, DECODER, _BATCH.at(module)).read(x)
        case Kind.HEAD:
            return head.everything(subject, module, x, _BATCH.mask)
    return compute(module, x, _BATCH.mask)


@contract_check()
def constructs(subject: Subject) -> None:
    """The component can be constructed and run with small sizes."""
    try:
        module = subject.create()
    except ConfigurationError as error:
        pytest.fail(f"it refuses the sizes of the model ({error}); give others by model=", pytrace=False)
    require.finite(exercise(subject, module.eval(), torch.float32), "its output")


@contract_check()
def serves_or_refuses_each_place(subject: Subject) -> None:
    """In each place of a model it works, or its constructor refuses the place with a ConfigurationError."""
    for place in PLACES:
        there = subject.at(place)
        try:
            module = there.create()
        except ConfigurationError:
            continue
        except Exception as fault:
            pytest.fail(f"constructed for {place} it raises {type(fault).__name__}: {fault}", pytrace=False)
        else:
            output = exercise(there, module.eval(), torch.float32)
            require.finite(output, f"constructed for {place} its output")


@contract_check()
def draws_initial_values(subject: Subject) -> None:
    """All parameters get their initial values in reset_parameters, of the same kind as in the constructor.

    The core calls it with a random stream for each module. The same seed gives the same values.
    """
    module: nn.Module = subject.create()
    refuse_hidden_values(module, subject.entry.name)
    constructed = copy.deepcopy(dict(module.named_parameters()))
    drawn, again = _drawn(module, 7.25), _drawn(module, -7.25)
    require.same(again, drawn, "drawn again from the same seed")
    for name, before in constructed.items():
        now, first = drawn[name], before.flatten()[0]
        if before.numel() > 1 and (before == first).all():
            require.that(torch.equal(before, now), f"{name} starts at {first:g}, reset_parameters disagrees")
        elif before.numel() >= 32:
            ratio = (now.std() / before.std()).item()
            require.that(0.5 < ratio < 2, f"reset_parameters draws {name} {ratio:.2g} times as wide")


def _drawn(module: nn.Module, mark: float) -> dict[str, nn.Parameter]:
    """Returns the values that reset_parameters draws in place of a mark."""
    for parameter in module.parameters():
        parameter.data.fill_(mark)
    draw_own_values(module, 1)
    for name, value in module.named_parameters():
        require.that((value != mark).any(), f"reset_parameters does not draw {name}")
    return copy.deepcopy(dict(module.named_parameters()))


@contract_check()
def every_parameter_gets_a_gradient(subject: Subject) -> None:
    """Every parameter that is trained takes part in the output and gets a finite gradient."""
    module = subject.perturbed().train()
    require_gradients(module, exercise(subject, module))


@contract_check()
def evaluation_is_repeatable(subject: Subject) -> None:
    """In evaluation mode nothing is random, and a forward pass changes nothing in the module."""
    module = subject.perturbed()
    before = copy.deepcopy(module.state_dict())
    first, second = exercise(subject, module), exercise(subject, module)
    require.close(second, first, "two passes in evaluation mode differ", tolerance=1e-9)
    require.same(module.state_dict(), before, "after a forward pass in evaluation mode")


@contract_check()
def runs_in_float32(subject: Subject) -> None:
    """In float32 the output is float32, and close to that in float64."""
    _agrees(subject, torch.float32, 1e-4)


@contract_check()
def runs_in_bfloat16(subject: Subject) -> None:
    """In bfloat16, also mixed with float32, the output is as close to that in float64 as 8 bits allow."""
    _agrees(subject, torch.bfloat16, 0.1)
    module = subject.perturbed()
    expected, mixed = exercise(subject, module).detach(), module.float()
    with torch.autocast("cpu", torch.bfloat16):
        output = exercise(subject, mixed, torch.float32)
    require_gradients(mixed, output.float(), everywhere=False)
    _require_near(output, expected, 0.1, "in float32 mixed with bfloat16 (torch.autocast)")


@contract_check(*_STREAM)
def keeps_the_format(subject: Subject) -> None:
    """Of bfloat16 it makes bfloat16 under autocast, where its parameters are float32."""
    with torch.autocast("cpu", torch.bfloat16):
        output = exercise(subject, subject.perturbed(torch.float32), torch.bfloat16)
    message = f"under autocast it makes {output.dtype} of bfloat16: convert what it adds, `.to(x.dtype)`"
    require.that(output.dtype is torch.bfloat16, message)


def _agrees(subject: Subject, dtype: torch.dtype, tolerance: float) -> None:
    module = subject.perturbed()
    expected = exercise(subject, module).detach()
    output = exercise(subject, module.to(dtype), dtype)
    require.that(output.dtype == dtype, f"in {dtype} its output is {output.dtype}")
    _require_near(output, expected, tolerance, f"in {dtype}")


def _require_near(output: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    """Requires that an output is finite and most of it near that in float64."""
    require.finite(output, f"{what} its output")
    # The median: if a near tie in a router is decided differently, a few values differ in full.
    error = (output.detach().double() - expected).abs().median().item()
    size = expected.abs().mean().item()
    require.that(error <= tolerance * size + 1e-6, f"{what} its output is off by {error:.2g} of {size:.2g}")


@contract_check()
def saves_and_loads(subject: Subject) -> None:
    """Saved as safetensors and loaded into a new component, it computes the same."""
    module, fresh = subject.perturbed(), subject.perturbed()
    expected = exercise(subject, module)
    with tempfile.TemporaryDirectory() as folder:
        save_tensors(own_tensors(module), file := Path(folder, "component.safetensors"))
        missing = fresh.load_state_dict(load_file(file), strict=False).missing_keys
    require.that(not missing, f"{', '.join(missing)} is not saved")
    message = "after saving and loading it computes something else: a part of it is not in its state_dict"
    require.close(exercise(subject, fresh), expected, message, tolerance=1e-9)


@contract_check(Kind.POSITION, *_STREAM, cases=BATCHES)
def rows_are_independent(subject: Subject, batch: PaddedBatch) -> None:
    """A sequence gives the same alone, without padding, as in a batch of longer and shorter ones."""
    x = subject.tokens(*batch.mask.shape)
    for where, run in _runs(subject):
        whole = run(x, batch)
        for row, length in enumerate(batch.mask.sum(dim=1).tolist()):
            alone = run(x[row, :length][None], full(1, length))[0]
            message = f"row {row} differs from the same tokens alone, without padding{where}"
            require.close(whole[row, :length], alone, message)


def _runs(subject: Subject) -> Iterator[tuple[str, Callable[[Tensor, PaddedBatch], Tensor]]]:
    """Yields functions of hidden states and their batch, each with the place where it computes."""
    if subject.kind not in (Kind.ATTENTION, Kind.POSITION):
        module = subject.perturbed()
        yield "", lambda x, batch: compute(module, x, batch.mask)
        return
    for placed in attentions(subject, FULL[0], ENCODER, DECODER):
        yield f", in {placed.place}", partial(_read, placed)


def _read(placed: PlacedAttention, x: Tensor, batch: PaddedBatch) -> Tensor:
    return placed.at(batch.at(placed.positions.encoding)).read(x)


@contract_check(Kind.ATTENTION, Kind.POSITION, cases=PIECES)
def cached_pieces_equal_the_whole(subject: Subject, pieces: Pieces) -> None:
    """Pieces and single tokens with a cache give the same as whole sequences, also of different length."""
    x = subject.tokens(*pieces.whole.mask.shape)
    for placed in attentions(subject, pieces.whole, DECODER):
        with torch.no_grad():
            found, expected = Steps(placed).read(x, pieces), placed.read(x)
        advice = "what later tokens read is kept by `context.cached`, or summed up by `context.keep`"
        require.close(found, expected, f"tokens read otherwise in steps, in {placed.place}; {advice}")


@contract_check()
def compiles(subject: Subject) -> None:
    """Under torch.compile it computes the same, forward and backward.

    The aot_eager backend traces both passes as the default one does, but needs no C++ compiler and little
    time. Code that cannot be traced (a value that decides about shapes) may run uncompiled.
    """
    _refuse_types()
    module, logger = subject.perturbed(torch.float32), logging.getLogger("torch._dynamo")
    expected = exercise(subject, module, torch.float32)
    expected_gradients, level = gradients(module, expected), logger.level
    run: Callable[[], Tensor] = partial(exercise, subject, module, torch.float32)
    if subject.kind in _STREAM:
        module.compile(backend="aot_eager")  # when it is called, without what prepares the call
    else:
        run = torch.compile(run, backend="aot_eager")
    logger.setLevel(logging.ERROR)  # graph breaks are no faults
    torch.compiler.reset()
    try:
        actual = run()
        compiled_gradients = gradients(module, actual)
    finally:
        torch.compiler.reset()
        logger.setLevel(level)
    require.close(actual, expected, "compiled, it computes something else", tolerance=1e-4)
    require.same(compiled_gradients, expected_gradients, "compiled, as gradients", tolerance=1e-3)


class _Program(nn.Module):
    """What a component does to hidden states of a batch whose first row is padded."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject, self.component = subject, subject.perturbed()
        self.attention = built_in_attention(subject) if subject.kind is Kind.POSITION else self.component

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        kind, (rows, length, _) = self.subject.kind, x.shape
        real = (torch.arange(rows)[:, None] > 0) | (torch.arange(length) < length - 1)
        if kind not in (Kind.ATTENTION, Kind.POSITION):
            return (compute(self.component, x, real),)
        encoding, place = (
            (Turning(), self.subject.place) if kind is Kind.ATTENTION else (self.component, DECODER)
        )
        placed = PlacedAttention(self.attention, place, Positions.of(length, encoding, real))
        if not place.causal:
            return (placed.read(x),)
        steps, ids = Steps(placed), torch.zeros_like(real, dtype=torch.long)  # as decoding takes them
        beginning = steps(x, Tokens(ids, real)).masked_fill(~real[..., None], 0.0)
        return placed.read(x), beginning, steps(x[:, :1], Tokens(ids[:, :1], real[:, :1]))


@contract_check(Kind.POSITION, *_STREAM)
def exports(subject: Subject) -> None:
    """Traced once by torch.export, it computes the same for batches of another size and length.

    Attentions, also of an encoding, compute a beginning and a token after it, with a cache. While it is
    traced, `torch.compiler.is_exporting()` is true. A component that cannot be exported may say so with a
    NotExportableError.
    """
    from torch.export import Dim, export

    _refuse_types()
    if subject.kind is Kind.ATTENTION:  # in a decoder, where it serves there
        subject = subject.serving(DECODER, subject.place)[0]
    program = _Program(subject)
    axes = (dict.fromkeys((0, 1), Dim.DYNAMIC),)
    given = [(subject.tokens(*shape),) for shape in ((2, 5), (3, 4), (5, 9))]
    with torch.no_grad():
        try:
            with exporting():
                program(*given[0])
            call = export(program, given[0], dynamic_shapes=axes, strict=False).module()
            outputs = [call(*each) for each in given]
        except NotExportableError as error:
            pytest.skip(f"it refuses to be exported: {error}")
        except Exception as error:
            pytest.fail(f"it cannot be traced for any batch and length: {described(error)}", pytrace=False)
        for found, expected in zip(chain(*outputs), chain(*(program(*each) for each in given)), strict=True):
            require.close(found, expected, "exported, it computes something else")


def _refuse_types() -> None:
    typed = any(type(finder).__module__.startswith("jaxtyping") for finder in sys.meta_path)
    if typed and not config.jaxtyping_disable:
        pytest.skip("jaxtyping checks types at run time, which no compiler can trace; turn it off")


@contract_check(Kind.ATTENTION, Kind.FEED_FORWARD)
def last_map_is_linear(subject: Subject) -> None:
    """The output is proportional to the last map of `residual_path`, which some initial values scale."""
    module = subject.perturbed()
    last = module.residual_path[-1]
    parameters = [p for name, p in module.named_parameters() if last in name.split(".")]
    if not parameters:
        pytest.skip(f"no parameter is called {last!r}: name the maps in `residual_path`")
    expected = 2 * exercise(subject, module)
    for parameter in parameters:
        parameter.data.mul_(2)
    message = f"the output is not proportional to {last!r}, the last map that it names in `residual_path`"
    require.close(exercise(subject, module), expected, message)
