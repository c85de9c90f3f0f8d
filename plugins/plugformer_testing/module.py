"""What holds for every component that is a torch module, whatever its kind."""

import copy
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import config
from safetensors.torch import load_file
from torch import Tensor, nn

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.model import draw_own_values, refuse_hidden_values
from plugformer.registry import Kind
from plugformer.runs import own_tensors, save_tensors
from plugformer_testing import head, position
from plugformer_testing.attention import PlacedAttention
from plugformer_testing.contract import (
    NotApplicable,
    contract_check,
    fail,
    require,
    require_close,
    require_finite,
)
from plugformer_testing.probes import PADDED, Turning, example, gradients
from plugformer_testing.subject import PLACES, SUBLAYERS, Subject
from plugformer_testing.tokenwise import sublayers

_BATCH = PADDED[2]

_RUN: dict[Kind, Callable[[Subject, Any, Tensor], Tensor]] = {
    Kind.NORM: lambda _, norm, x: norm(x),
    Kind.FEED_FORWARD: lambda _, network, x: network(x.flatten(0, 1)),
    Kind.RESIDUAL: lambda _, residual, x: residual(x, sublayers(SUBLAYERS)),
    Kind.ATTENTION: lambda subject, attention, x: PlacedAttention(
        attention, subject.place, _BATCH.at(Turning())
    ).read(x),
    Kind.POSITION: lambda subject, encoding, x: position.everything(encoding, x, subject.model.heads, _BATCH),
    Kind.HEAD: lambda _, component, x: head.everything(component, x, _BATCH.mask),
}


def exercise(subject: Subject, module: nn.Module, dtype: torch.dtype = torch.float64) -> Tensor:
    """Runs a component on the same small padded batch each time."""
    x = example(*_BATCH.mask.shape, subject.model.width, dtype=dtype)
    return _RUN[subject.kind](subject, module, x)


@contract_check()
def constructs(subject: Subject) -> None:
    """The component can be constructed and run with small sizes."""
    try:
        module = subject.create()
    except ConfigurationError as error:
        fail(f"it refuses the sizes of the model ({error}); give others by model=, or options that fit them")
    output = exercise(subject, module.eval(), torch.float32)
    require_finite(output, "its output is not finite")


@contract_check()
def serves_or_refuses_each_place(subject: Subject) -> str | None:
    """In each place of a model it works, or its constructor refuses the place with a ConfigurationError.

    Returns:
        The places that it refuses, and its messages: other checks leave them out.
    """
    refused: dict[str, list[str]] = {}
    error: ConfigurationError | None = None
    for place in PLACES:
        there = subject.at(place)
        try:
            module = there.create()
        except ConfigurationError as refusal:
            error = refusal
            refused.setdefault("; ".join(str(refusal).splitlines()), []).append(str(place))
            continue
        except Exception as fault:
            fail(f"constructed for {place} it raises {type(fault).__name__}: {fault}")
        output = exercise(there, module.eval(), torch.float32)
        require_finite(output, f"constructed for {place} its output is not finite")
    if error is not None and sum(map(len, refused.values())) == len(PLACES):
        raise error
    notes = [f"{', '.join(places)}: {message}" for message, places in refused.items()]
    return f"not checked in places that it refuses: {'; '.join(notes)}" if notes else None


@contract_check()
def draws_initial_values(subject: Subject) -> None:
    """All parameters get their initial values in reset_parameters, of the same kind as in the constructor.

    The core calls it with a random stream for each module. The same seed gives the same values.
    """
    module: nn.Module = subject.create()
    try:
        refuse_hidden_values(module, subject.entry.name)
    except RegistryError as error:
        fail(str(error))
    constructed = _values(module)
    drawn: dict[str, Tensor] = {}
    again: dict[str, Tensor] = {}
    for values, mark in ((drawn, 7.25), (again, -7.25)):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.fill_(mark)
        draw_own_values(module, 1)
        values.update(_values(module))
        for name, value in values.items():
            require((value != mark).any(), f"reset_parameters does not draw {name}")
    for name, before in constructed.items():
        now, first = drawn[name], before.flatten()[0]
        what = f"{name} starts at other values when drawn again from the same seed"
        require(torch.equal(now, again[name]), what)
        if before.numel() > 1 and (before == first).all():
            what = f"{name} starts at {first.item():g} when constructed, but reset_parameters gives it"
            require(torch.equal(before, now), f"{what} other values")
        elif before.numel() >= 32:
            ratio = (now.std() / before.std()).item()
            what = f"reset_parameters gives {name} values {ratio:.2g} times as wide as the constructor's"
            require(0.5 < ratio < 2, what)


def _values(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.named_parameters()}


@contract_check()
def every_parameter_gets_a_gradient(subject: Subject) -> None:
    """Every parameter that is trained takes part in the output and gets a finite gradient."""
    module = subject.perturbed().train()
    found = gradients(module, exercise(subject, module))
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            require(name in found, f"{name} gets no gradient: it takes no part in the output")
            require_finite(found[name], f"the gradient of {name} is not finite")


@contract_check()
def evaluation_is_repeatable(subject: Subject) -> None:
    """In evaluation mode nothing is random, and a forward pass changes nothing in the module."""
    module = subject.perturbed()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    first, second = exercise(subject, module), exercise(subject, module)
    require_close(second, first, "two passes in evaluation mode differ", tolerance=1e-9)
    for name, value in module.state_dict().items():
        require(torch.equal(value, before[name]), f"a forward pass in evaluation mode changes {name}")


@contract_check()
def runs_in_float32(subject: Subject) -> None:
    """In float32 the output is float32, and close to that in float64."""
    _agrees(subject, torch.float32, 1e-4)


@contract_check()
def runs_in_bfloat16(subject: Subject) -> None:
    """In bfloat16 the output is bfloat16, and as close to that in float64 as 8 bits allow.

    The same holds for float32 mixed with bfloat16, as with `training.precision`.
    """
    _agrees(subject, torch.bfloat16, 0.1)
    module = subject.perturbed()
    expected = exercise(subject, module).detach()
    mixed, what = module.float(), "in float32 mixed with bfloat16 (torch.autocast)"
    try:
        with torch.autocast("cpu", torch.bfloat16):
            output = exercise(subject, mixed, torch.float32)
        found = gradients(mixed, output.float())
    except Exception as error:  # types that do not fit: torch raises several errors
        fail(f"{what} it raises {type(error).__name__}: {error}")
    _require_near(output, expected, 0.1, what)
    for name, gradient in found.items():
        require_finite(gradient, f"{what} the gradient of {name} is not finite")


def _agrees(subject: Subject, dtype: torch.dtype, tolerance: float) -> None:
    module = subject.perturbed()
    expected = exercise(subject, module).detach()
    output = exercise(subject, module.to(dtype), dtype)
    name, actual = (str(kind).removeprefix("torch.") for kind in (dtype, output.dtype))
    require(output.dtype == dtype, f"in {name} its output is {actual}")
    _require_near(output, expected, tolerance, f"in {name}")


def _require_near(output: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    """Requires that an output is finite and most of it near that in float64."""
    require_finite(output, f"{what} its output is not finite")
    # The median: if a near tie in a router is decided differently, a few values differ in full.
    error = (output.detach().double() - expected).abs().median().item()
    size = expected.abs().mean().item()
    what = f"{what} its output is off by {error / max(size, 1e-9):.0%} of its size"
    require(error <= tolerance * size + 1e-6, what)


@contract_check()
def saves_and_loads(subject: Subject) -> None:
    """Saved as safetensors and loaded into a new component, it computes the same; so does a deep copy."""
    module, fresh = subject.perturbed(), subject.perturbed()
    copied, expected = copy.deepcopy(module), exercise(subject, module)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "component.safetensors")
        save_tensors(own_tensors(module), file)
        missing = fresh.load_state_dict(load_file(file), strict=False).missing_keys
    require(not missing, f"{', '.join(missing)} is not saved")
    message = "after saving and loading it computes something else: a part of it is not in its state_dict"
    require_close(exercise(subject, fresh), expected, message, tolerance=1e-9)
    message = "a deep copy computes something else"
    require_close(exercise(subject, copied), expected, message, tolerance=1e-9)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1.0)
    message = "a deep copy shares parameters with the original"
    require_close(exercise(subject, module), expected, message, tolerance=1e-9)


@contract_check()
def compiles(subject: Subject) -> None:
    """Under torch.compile it computes the same, forward and backward.

    The aot_eager backend traces both passes as the default backend does and then runs PyTorch's own kernels.
    What an author can get wrong is the tracing, which needs no C++ compiler and little time. Code that cannot
    be traced (a value that decides about shapes) may run uncompiled.
    """
    typed = any(type(finder).__module__.startswith("jaxtyping") for finder in sys.meta_path)
    if typed and not config.jaxtyping_disable:
        raise NotApplicable("jaxtyping checks types at run time, which no compiler can trace; turn it off")
    module = subject.perturbed(torch.float32)
    expected = exercise(subject, module, torch.float32)
    expected_gradients = gradients(module, expected)
    with _quiet_compiler():
        compiled = torch.compile(partial(exercise, subject, module, torch.float32), backend="aot_eager")
        try:
            actual = compiled()
            compiled_gradients = gradients(module, actual)
        except Exception as error:  # the compiler has many
            reason = (str(error).strip().splitlines() or ["no message"])[0]
            fail(f"torch.compile fails: {type(error).__name__}: {reason}")
    require_close(actual, expected, "compiled, it computes something else", tolerance=1e-4)
    for name, gradient in expected_gradients.items():
        message = f"compiled, {name} has another gradient"
        require_close(compiled_gradients[name], gradient, message, tolerance=1e-3)


@contextmanager
def _quiet_compiler() -> Iterator[None]:
    """Resets the compiler and silences warnings about graph breaks, which are no faults."""
    logger = logging.getLogger("torch._dynamo")
    level = logger.level
    logger.setLevel(logging.ERROR)
    torch.compiler.reset()
    try:
        yield
    finally:
        torch.compiler.reset()
        logger.setLevel(level)


@contract_check((None,), Kind.ATTENTION, Kind.FEED_FORWARD)
def last_map_is_linear(subject: Subject) -> None:
    """The output is proportional to the last map of `residual_path`, which some initial values scale."""
    module = subject.perturbed()
    last = module.residual_path[-1]
    parameters = [p for name, p in module.named_parameters() if last in name.split(".")]
    if not parameters:
        raise NotApplicable(f"no parameter is called {last!r}: name the maps in `residual_path`")
    expected = 2 * exercise(subject, module)
    with torch.no_grad():
        for parameter in parameters:
            parameter.mul_(2)
    message = f"the output is not a multiple of {last}, the last of residual_path"
    require_close(exercise(subject, module), expected, message)
