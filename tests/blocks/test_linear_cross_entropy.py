"""linear_cross_entropy equals PyTorch's linear map followed by its cross-entropy, value and gradients."""

import sys

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from plugformer_blocks import linear_cross_entropy


def inputs(targets=7, outputs=11, width=5, dtype=torch.float64, *, bias=True):
    generator = torch.Generator().manual_seed(1)
    shapes = [(targets, width), (outputs, width), (outputs,)]
    hidden, weight, added = (
        torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes
    )
    return hidden, weight, added if bias else None, torch.randint(outputs, (targets,), generator=generator)


def reference(hidden, weight, bias, targets, smoothing):
    scores = functional.linear(hidden, weight, bias)
    return functional.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)


def gradients(loss, *of):
    return torch.autograd.grad(loss * 0.37, [each for each in of if each is not None])


@pytest.mark.parametrize("pieces", [1, 3, 7])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [False, True])
def test_value_and_gradients(monkeypatch, pieces, smoothing, bias):
    hidden, weight, added, targets = inputs(bias=bias)
    monkeypatch.setattr(sys.modules[linear_cross_entropy.__module__], "SCORES", 11 * -(-7 // pieces))
    loss = linear_cross_entropy(hidden, weight, targets, bias=added, label_smoothing=smoothing)
    expected = reference(hidden, weight, added, targets, smoothing)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        gradients(loss, hidden, weight, added), gradients(expected, hidden, weight, added)
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_without_gradients(monkeypatch, smoothing):
    hidden, weight, added, targets = inputs()
    monkeypatch.setattr(sys.modules[linear_cross_entropy.__module__], "SCORES", 22)
    with torch.inference_mode():
        loss = linear_cross_entropy(hidden, weight, targets, bias=added, label_smoothing=smoothing)
        torch.testing.assert_close(loss, reference(hidden, weight, added, targets, smoothing))


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


@pytest.mark.parametrize("autocast", [True, False])
def test_loss_scaling_saves_small_gradients_of_float16(autocast):
    """A loss is scaled before its backward pass; gradients formed earlier must not be zero by then."""
    hidden = torch.tensor([[17.0, 1.0]])
    weight, targets = torch.tensor([[0.0, 0.0], [0.0, 0.0], [-1.0, 0.0]]), torch.tensor([0])
    kind = torch.float32 if autocast else torch.float16
    found = [each.to(kind).requires_grad_() for each in (hidden, weight, torch.zeros(3))]
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        loss = linear_cross_entropy(found[0], found[1], targets, bias=found[2])
    (loss * 2.0**12).backward()
    right = [each.detach().double().requires_grad_() for each in found]
    (reference(right[0], right[1], right[2], targets, 0.0) * 2.0**12).backward()
    for each, expected in zip(found, right, strict=True):
        assert each.grad.dtype == kind
        torch.testing.assert_close(each.grad.double(), expected.grad, rtol=1e-3, atol=1e-6)


def test_scores_are_not_kept():
    """Nothing that the backward pass holds has a row for each target and a column for each output."""
    hidden, weight, _, targets = inputs(targets=64, outputs=512, bias=False)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda each: kept.append(each.shape) or each, lambda each: each
    ):
        linear_cross_entropy(hidden, weight, targets)
    assert set(kept) == {(64, 5), (512, 5)}


class Products(TorchDispatchMode):
    """Counts products of matrices."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("frozen", ["hidden", "weight", "bias"])
def test_no_gradient_of_what_is_frozen_is_computed(frozen):
    hidden, weight, added, targets = inputs()
    parts = {"hidden": hidden, "weight": weight, "bias": added}
    parts.pop(frozen).requires_grad_(False)
    with Products() as products:
        loss = linear_cross_entropy(hidden, weight, targets, bias=added)
    assert products.count == 3 - (frozen != "bias")
    found = gradients(loss, *parts.values())
    torch.testing.assert_close(
        found, gradients(reference(hidden, weight, added, targets, 0.0), *parts.values())
    )
