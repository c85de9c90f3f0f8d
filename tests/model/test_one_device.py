"""Models compute on the device that they lie on: no tensor of a pass is made on another one.

No GPU is needed: tensors that compute on the CPU say that they lie elsewhere, and refuse others.
"""

from contextlib import contextmanager

import pytest
import torch
from tests.batches import pairs
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from plugformer.interfaces import AllowedOutputs, Session
from plugformer.registry import Kind

ELSEWHERE = torch.device("meta")
COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}
VOCABULARY, LONGEST = 12, 4


class TensorElsewhere(torch.Tensor):
    """A tensor that says it lies elsewhere; `here` has its values."""

    @staticmethod
    def __new__(cls, here):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            here.size(),
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=ELSEWHERE,
        )

    def __init__(self, here):
        self.here = here

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        return computed(function, arguments, options or {})


class Factories(TorchDispatchMode):
    """Inside, tensors are made elsewhere if asked for."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        return computed(function, arguments, options or {})


class Lists(TorchFunctionMode):
    """Inside, numbers of Python become tensors here, then elsewhere, and back: past other modes."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = dict(options or {})
        if function is torch.Tensor.tolist:
            return function(*(getattr(each, "here", each) for each in arguments))
        if function in (torch.tensor, torch.as_tensor) and (device := options.pop("device", None)):
            return function(*arguments, **options).to(device)
        return function(*arguments, **options)


@contextmanager
def elsewhere():
    with Factories(), Lists():
        yield


def computed(function, arguments, options):
    """Computes here what is wanted elsewhere; operands of any dimension lie in one place."""
    places, wrappers = set(), {}

    def unwrapped(value):
        if isinstance(value, TensorElsewhere):
            places.add(ELSEWHERE)
            wrappers[id(value.here)] = value
            return value.here
        if isinstance(value, torch.Tensor) and value.dim():
            places.add(value.device)
        return torch.device("cpu") if value == ELSEWHERE and isinstance(value, torch.device) else value

    def wrapped(value):
        if not isinstance(value, torch.Tensor):
            return value
        return wrappers[id(value)] if id(value) in wrappers else TensorElsewhere(value)

    result = function(*tree_map(unwrapped, arguments), **tree_map(unwrapped, options))
    if len(places) > 1 and function not in COPIES:
        raise AssertionError(f"{function} has operands on {len(places)} devices")
    device = options.get("device")
    there = ELSEWHERE in places if device is None else torch.device(device) == ELSEWHERE
    if function is torch.ops.aten.copy_.default:
        there = isinstance(arguments[0], TensorElsewhere)
    return tree_map(wrapped, result) if there else result


def moved(model):
    """Returns a model whose parameters and buffers lie elsewhere, shared ones still shared."""
    known = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                new = known.setdefault(parameter, TensorElsewhere(parameter.detach()))
                known[parameter] = module._parameters[name] = (
                    new if isinstance(new, torch.nn.Parameter) else torch.nn.Parameter(new)
                )
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else TensorElsewhere(buffer)
    return model


SOURCES = [[5, 6, 7, 8], [9], [4, 11]]
TARGETS = [[6, 5], [8, 7, 4], [10]]
ALLOWED = AllowedOutputs(40, max_length=LONGEST)


def answers(model, registry, search, device):
    options = {"seed": 5} if search == "sampling" else {}
    batch = pairs(SOURCES, rows=[0, 1, 2]).to(device)
    session = Session(model, batch, ALLOWED, [0, 1, 2])
    found = registry.create(Kind.DECODING, search, **options).search(session)
    return [[hypothesis.tokens for hypothesis in hypotheses] for hypotheses in found]


def test_the_loss_of_every_part(tiny_model, any_parts):
    """It depends on every parameter, or processes that share an update would wait for a gradient."""
    settings = [each for each in any_parts if each.startswith("model.")]
    model, there = tiny_model(*settings).train(), moved(tiny_model(*settings))
    batch = pairs(SOURCES, TARGETS)
    with elsewhere():
        found = there(batch.to(ELSEWHERE))
        assert found.total.device == ELSEWHERE
        (found.total + found.auxiliary).backward()
    torch.testing.assert_close(found.total.here, model(batch).total.detach())
    assert [name for name, each in there.named_parameters() if each.grad is None] == []
    assert {each.grad.device for each in there.parameters()} == {ELSEWHERE}


def assert_answers_are_the_same(tiny_model, registry, setting, search="beam"):
    model, there = tiny_model(setting).eval(), moved(tiny_model(setting)).eval()
    with torch.no_grad():
        expected = answers(model, registry, search, "cpu")
        with elsewhere():
            assert answers(there, registry, search, ELSEWHERE) == expected


def test_decoding_with_every_attention(tiny_model, registry, any_attention):
    assert_answers_are_the_same(tiny_model, registry, f"model.attention={any_attention}")


def test_decoding_with_every_position(tiny_model, registry, any_position):
    assert_answers_are_the_same(tiny_model, registry, f"model.position={any_position}")


@pytest.mark.parametrize("search", ["greedy", "sampling"])
def test_other_searches(tiny_model, registry, search):
    assert_answers_are_the_same(tiny_model, registry, "model.attention=mha", search)
