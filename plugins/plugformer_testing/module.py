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
from plugformer_testing.attention import Reader
from plugformer_testing.check import NotApplicable, check, fail, require, require_close, require_finite
from plugformer_testing.layout import PADDED, example
from plugformer_testing.probes import Turning, gradients
from plugformer_testing.subject import PLACES, SUBLAYERS, Subject
from plugformer_testing.tokenwise import sublayers

_LAYOUT = PADDED[2]

_RUN: dict[Kind, Callable[[Subject, Any, Tensor], Tensor]] = {
    Kind.NORM: lambda _, norm, x: norm(x),
    Kind.FEED_FORWARD: lambda _, network, x: network(x.flatten(0, 1)),
    Kind.RESIDUAL: lambda _, residual, x: residual(x, sublayers(SUBLAYERS)),
    Kind.ATTENTION: lambda subject, attention, x: Reader(
        attention, subject.place, _LAYOUT.at(Turning())
    ).read(x),
    Kind.POSITION: lambda subject, encoding, x: position.everything(
        encoding, x, subject.model.heads, _LAYOUT
    ),
    Kind.HEAD: lambda _, component, x: head.everything(component, x, _LAYOUT.mask),
}


def exercise(subject: Subject, module: nn.Module, dtype: torch.dtype = torch.float64) -> Tensor:
    """Runs a component on the same small example each time: a padded batch."""
    x = example(*_LAYOUT.mask.shape, subject.model.width, dtype=dtype)
    return _RUN[subject.kind](subject, module, x)


@check()
def constructs(subject: Subject) -> None:
    """The component can be constructed and run with the suite's small sizes."""
    try:
        module = subject.create()
    except ConfigurationError as error:
        fail(f"it refuses the sizes of the model ({error}); give others by model=, or options that fit them")
    output = exercise(subject, module.eval(), torch.float32)
    require_finite(output, "its output is not finite")


@check()
def serves_or_refuses_each_place(subject: Subject) -> str | None:
    """In each place of a model it works, or its constructor refuses the place with a ConfigurationError.

    Returns:
        Which places it refuses, and how: checks do without them.
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
    said = [f"{', '.join(places)}: {message}" for message, places in refused.items()]
    return f"places that it refuses, where nothing is checked: {'; '.join(said)}" if said else None


@check()
def draws_initial_values(subject: Subject) -> None:
    """All parameters get their initial values in reset_parameters, the same kind of values as constructed.

    The core draws them there, each module from a stream of its own.
    """
    module: nn.Module = subject.create()
    try:
        refuse_hidden_values(module, subject.entry.name)
    except RegistryError as error:
        fail(str(error))
    constructed = {name: value.detach().clone() for name, value in module.named_parameters()}
    _overwrite(module, 7.25)
    draw_own_values(module, 1)
    for name, parameter in module.named_parameters():
        before, now = constructed[name], parameter.detach()
        require(not bool((now == 7.25).all()), f"reset_parameters does not draw {name}")
        first = before.flatten()[0]
        if before.numel() > 1 and bool((before == first).all()):
            what = f"{name} starts at {first.item():g} when constructed, but reset_parameters gives it"
            require(torch.equal(before, now), f"{what} other values")
        elif before.numel() >= 32:
            ratio = (now.std() / before.std()).item()
            what = f"reset_parameters gives {name} values {ratio:.2g} times as wide as the constructor's"
            require(0.5 < ratio < 2, what)


@check()
def initial_values_follow_the_seed(subject: Subject) -> None:
    """Initial values depend on the seed alone: the same twice."""
    module: nn.Module = subject.create()
    drawn = []
    for _ in range(2):
        draw_own_values(module, 1)
        drawn.append([parameter.detach().clone() for parameter in module.parameters()])
        _overwrite(module, -7.25)
    for (name, _), one, other in zip(module.named_parameters(), *drawn, strict=True):
        require(torch.equal(one, other), f"{name} starts at other values when drawn again from the same seed")


@check()
def every_parameter_gets_a_gradient(subject: Subject) -> None:
    """Every parameter that is trained takes part in the output."""
    module = subject.perturbed().train()
    found = gradients(module, exercise(subject, module))
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            require(name in found, f"{name} gets no gradient: it takes no part in the output")


@check()
def gradients_are_finite(subject: Subject) -> None:
    """No gradient is NaN or infinite."""
    module = subject.perturbed().train()
    for name, gradient in gradients(module, exercise(subject, module)).items():
        require_finite(gradient, f"the gradient of {name} is not finite")


@check()
def evaluation_is_repeatable(subject: Subject) -> None:
    """In evaluation mode nothing is random, and a forward pass leaves nothing behind."""
    module = subject.perturbed()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    first, second = exercise(subject, module), exercise(subject, module)
    require_close(second, first, "two passes in evaluation mode differ", tolerance=1e-9)
    for name, value in module.state_dict().items():
        require(torch.equal(value, before[name]), f"a forward pass in evaluation mode changes {name}")


@check()
def runs_in_float32(subject: Subject) -> None:
    """In float32 the output is float32, and close to that in float64."""
    _agrees(subject, torch.float32, 1e-4)


@check()
def runs_in_bfloat16(subject: Subject) -> None:
    """In bfloat16 the output is bfloat16, and as close to that in float64 as 8 bits allow.

    So it is where bfloat16 is mixed with float32, as `training.precision` has it.
    """
    _agrees(subject, torch.bfloat16, 0.1)
    module = subject.perturbed()
    expected = exercise(subject, module).detach()
    mixed, what = module.float(), "in float32 mixed with bfloat16 (torch.autocast)"
    try:
        with torch.autocast("cpu", torch.bfloat16):
            output = exercise(subject, mixed, torch.float32)
        found = gradients(mixed, output.float())
    except Exception as error:  # of types that do not fit, which torch has many words for
        fail(f"{what} it raises {type(error).__name__}: {error}")
    _require_near(output, expected, 0.1, what)
    for name, gradient in found.items():
        require_finite(gradient, f"{what} the gradient of {name} is not finite")


@check()
def saves_and_loads(subject: Subject) -> None:
    """Saved as safetensors and loaded into a new component, it computes the same."""
    module, fresh = subject.perturbed(), subject.perturbed()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "component.safetensors")
        save_tensors(own_tensors(module), file)
        missing = fresh.load_state_dict(load_file(file), strict=False).missing_keys
    require(not missing, f"{', '.join(missing)} is not saved")
    loaded, expected = exercise(subject, fresh), exercise(subject, module)
    message = "after saving and loading it computes something else: a part of it is not in its state_dict"
    require_close(loaded, expected, message, tolerance=1e-9)


@check()
def deep_copies(subject: Subject) -> None:
    """A deep copy computes the same, and shares no parameter with the original."""
    module = subject.perturbed()
    copied, expected = copy.deepcopy(module), exercise(subject, module)
    require_close(exercise(subject, copied), expected, "a deep copy computes something else", tolerance=1e-9)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1.0)
    message = "a deep copy shares parameters with the original"
    require_close(exercise(subject, module), expected, message, tolerance=1e-9)


@check()
def compiles(subject: Subject) -> None:
    """Under torch.compile it computes the same, forward and backward.

    The aot_eager backend traces both passes as the default backend does and then runs PyTorch's own kernels:
    what a component's author can get wrong is the tracing, which needs no C++ compiler and little time. What
    cannot be traced (a value that decides about shapes) may run uncompiled.
    """
    checked = any(type(finder).__module__.startswith("jaxtyping") for finder in sys.meta_path)
    if checked and not config.jaxtyping_disable:
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


@check(kinds=(Kind.ATTENTION, Kind.FEED_FORWARD))
def last_map_is_linear(subject: Subject) -> None:
    """The output is proportional to the last map of `residual_path`, which some initial values scale."""
    module = subject.perturbed()
    last = module.residual_path[-1]
    parameters = [p for name, p in module.named_parameters() if last in name.split(".")]
    if not parameters:
        raise NotApplicable(f"no parameter is called {last!r}: say in `residual_path` what the maps are")
    expected = 2 * exercise(subject, module)
    with torch.no_grad():
        for parameter in parameters:
            parameter.mul_(2)
    message = f"{last}, the last of residual_path, is not what the output is a multiple of"
    require_close(exercise(subject, module), expected, message)


def _agrees(subject: Subject, dtype: torch.dtype, tolerance: float) -> None:
    module = subject.perturbed()
    expected = exercise(subject, module).detach()
    output = exercise(subject, module.to(dtype), dtype).detach()
    name, found = (str(each).removeprefix("torch.") for each in (dtype, output.dtype))
    require(output.dtype == dtype, f"in {name} its output is {found}")
    _require_near(output, expected, tolerance, f"in {name}")


def _require_near(output: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    """Requires that an output is finite and most of it near that in float64."""
    require_finite(output, f"{what} its output is not finite")
    # The median: where a router's near tie falls to the other side, a few values differ in full.
    error = (output.detach().double() - expected).abs().median().item()
    size = expected.abs().mean().item()
    if not error <= tolerance * size + 1e-6:
        fail(f"{what} its output is off by {error / max(size, 1e-9):.0%} of its size")


@contextmanager
def _quiet_compiler() -> Iterator[None]:
    """Inside, the compiler begins afresh and says nothing of graph breaks, which are no faults."""
    logger = logging.getLogger("torch._dynamo")
    level = logger.level
    logger.setLevel(logging.ERROR)
    torch.compiler.reset()
    try:
        yield
    finally:
        torch.compiler.reset()
        logger.setLevel(level)


def _overwrite(module: nn.Module, value: float) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(value)
