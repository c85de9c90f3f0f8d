"""linear_cross_entropy equals PyTorch's linear map followed by its cross-entropy, value and gradients."""

import sys
from functools import partial

import pytest
import torch
from tests.forking import run
from tests.operators import Operators
from torch.nn import functional

from plugformer_blocks import IGNORED, linear_cross_entropy

MODULE = sys.modules[linear_cross_entropy.__module__]


def inputs(targets=7, outputs=11, width=5, dtype=torch.float64, *, bias=True):
    """Returns random inputs, two of whose seven targets are none."""
    generator = torch.Generator().manual_seed(1)
    shapes = [(targets, width), (outputs, width), (outputs,)]
    hidden, weight, added = (
        torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes
    )
    right = torch.randint(outputs, (targets,), generator=generator)
    right[1::3] = IGNORED
    return hidden, weight, added if bias else None, right


def reference(hidden, weight, bias, targets, smoothing, factors=1.0):
    scores = functional.linear(hidden, weight, bias)
    losses = functional.cross_entropy(scores, targets, reduction="none", label_smoothing=smoothing)
    return (losses * factors).sum()


def on_a_gpu(hidden, weight, targets, *, bias, label_smoothing=0.0, target_weights=None, pieces=1):
    """Returns what a GPU computes, which a CPU without a compiler does not."""
    return MODULE._in_large_pieces(hidden, weight, bias, targets, target_weights, label_smoothing, pieces)


def gradients(loss, *of):
    return torch.autograd.grad(loss * 0.37, [each for each in of if each is not None])


@pytest.mark.parametrize("device", ["CPU", "GPU"])
@pytest.mark.parametrize("pieces", [1, 3, 7])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
def test_value_and_gradients(monkeypatch, device, pieces, smoothing, bias):
    hidden, weight, added, targets = inputs(bias=bias)
    monkeypatch.setattr(MODULE, "CPU_SCORES", 11 * -(-7 // pieces))
    compute = partial(on_a_gpu, pieces=pieces) if device == "GPU" else linear_cross_entropy
    loss = compute(hidden, weight, targets, bias=added, label_smoothing=smoothing)
    expected = reference(hidden, weight, added, targets, smoothing)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        gradients(loss, hidden, weight, added), gradients(expected, hidden, weight, added)
    )


@pytest.mark.parametrize("compute", [linear_cross_entropy, partial(on_a_gpu, pieces=3)], ids=["CPU", "GPU"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_weights_of_targets(monkeypatch, compute, smoothing):
    hidden, weight, added, targets = inputs()
    monkeypatch.setattr(MODULE, "CPU_SCORES", 33)
    factors = torch.linspace(0, 3, len(targets))
    given = {"bias": added, "label_smoothing": smoothing, "target_weights": factors}
    loss = compute(hidden, weight, targets, **given)
    expected = reference(hidden, weight, added, targets, smoothing, factors)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        gradients(loss, hidden, weight, added), gradients(expected, hidden, weight, added)
    )
    with torch.no_grad():
        torch.testing.assert_close(compute(hidden, weight, targets, **given), expected)


def test_large_scores_stay_finite():
    hidden, weight, _, targets = inputs(bias=False)
    loss = linear_cross_entropy(hidden * 1e4, weight, targets)
    torch.testing.assert_close(loss, reference(hidden * 1e4, weight, None, targets, 0.0))


def test_no_targets():
    hidden, weight, added, targets = inputs(targets=0)
    loss = linear_cross_entropy(hidden, weight, targets, bias=added)
    assert loss.item() == 0
    assert all(each.eq(0).all() for each in gradients(loss, hidden, weight, added))


def test_half_precision_under_autocast():
    hidden, weight, added, targets = inputs(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(hidden, weight, targets, bias=added)
    assert loss.dtype == torch.float32
    expected = reference(hidden, weight, added, targets, 0.0)
    torch.testing.assert_close(loss, expected, rtol=0.01, atol=0)
    for found, right in zip(
        gradients(loss, hidden, weight, added), gradients(expected, hidden, weight, added), strict=True
    ):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, right, rtol=0.05, atol=0.02)


def test_scores_are_not_kept():
    """Nothing that the backward pass holds has a row for each target and a column for each output."""
    hidden, weight, _, targets = inputs(targets=64, outputs=512, bias=False)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda each: kept.append(each.shape) or each, lambda each: each
    ):
        linear_cross_entropy(hidden, weight, targets)
    assert set(kept) == {(64, 5), (512, 5)}


@pytest.mark.parametrize(("compute", "times"), [(linear_cross_entropy, 1), (partial(on_a_gpu, pieces=2), 2)])
@pytest.mark.parametrize("frozen", ["hidden", "weight", "bias"])
def test_no_gradient_of_what_is_frozen_is_computed(frozen, compute, times):
    """In several pieces, the products that the scores are made of are computed twice."""
    hidden, weight, added, targets = inputs()
    parts = {"hidden": hidden, "weight": weight, "bias": added}
    parts.pop(frozen).requires_grad_(False)
    with Operators() as operators:
        found = gradients(compute(hidden, weight, targets, bias=added), *parts.values())
    assert operators.products == times * (times + 2 - (frozen != "bias"))
    torch.testing.assert_close(
        found, gradients(reference(hidden, weight, added, targets, 0.0), *parts.values())
    )


@pytest.fixture
def other_device(monkeypatch):
    """Returns inputs on a device that is no CPU, and has a number of bytes."""

    def made(free, **sizes):
        monkeypatch.setattr(MODULE, "_free_memory", lambda device: free)
        hidden, weight, _, targets = inputs(bias=False, **sizes)
        hidden, weight = (part.detach().to("meta").requires_grad_() for part in (hidden, weight))
        return hidden, weight, targets.to("meta")

    return made


NEEDED = 96 * 50 * 16
"""Bytes for scores and gradients of 96 targets and 50 outputs."""


@pytest.mark.parametrize(
    ("free", "memory", "pieces"),
    [(NEEDED, 1.0, 1), (NEEDED - 1, 1.0, 2), (NEEDED, 0.5, 2), (NEEDED, 0.2, 5), (2 * NEEDED, None, 1)],
)
def test_scores_take_a_share_of_the_memory_that_is_free(other_device, free, memory, pieces):
    tensors = other_device(free, targets=96, outputs=50)
    with Operators() as operators:
        linear_cross_entropy(*tensors, **({} if memory is None else {"memory": memory}))
    assert operators.products == pieces


def test_the_operators_of_a_gpu_do_not_depend_on_values_or_sizes(other_device):
    """Values decide nothing on a device that has none."""
    counts = []
    for targets in (7, 700):
        hidden, weight, right = other_device(2**33, targets=targets, outputs=50, dtype=torch.float32)
        with Operators() as operators:
            linear_cross_entropy(hidden, weight, right).backward()
        counts.append(operators.counts.total())
    assert counts[0] == counts[1] <= 10


COMPILED = """
import torch
from plugformer_blocks import linear_cross_entropy
from plugformer_blocks.linear_cross_entropy import ASSUMED

compiled = torch.compile(linear_cross_entropy, fullgraph=True, backend="aot_eager")
for memory in (0.5, 20 * 50 * 16 / ASSUMED):  # in one piece, in four
    for length in (64, 72):
        parts = [torch.randn(length, 8), torch.randn(50, 8), torch.randn(50)]
        hidden, weight, bias = (part.requires_grad_() for part in parts)
        targets = torch.randint(50, (length,))
        targets[::5] = -100
        found, expected = (
            torch.autograd.grad(compute(hidden, weight, targets, bias=bias, memory=memory), parts)
            for compute in (compiled, linear_cross_entropy)
        )
        torch.testing.assert_close(found, expected)
"""


def test_the_compiler_sees_all_of_it():
    """In a process of its own, where no annotation is checked: the compiler would look into the checks."""
    ended = run("-c", COMPILED)
    assert ended.returncode == 0, ended.stderr
