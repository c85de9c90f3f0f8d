"""unpad: index_select with a gradient of its own, which must be that of index_select."""

import torch

from plugformer.interfaces import unpad


def test_gradient():
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    rows = torch.tensor([4, 0, 1])
    assert torch.equal(unpad(x, rows), x[rows])
    assert torch.autograd.gradcheck(lambda each: unpad(each, rows) ** 2, x)


def test_no_rows():
    x = torch.randn(6, 3, requires_grad=True)
    unpad(x, torch.zeros(0, dtype=torch.int64)).sum().backward()
    assert torch.equal(x.grad, torch.zeros(6, 3))


def test_many_models_at_once():
    x, rows = torch.randn(2, 6, 3), torch.tensor([4, 0, 1])
    gradients = torch.func.vmap(torch.func.grad(lambda each: (unpad(each, rows) ** 2).sum()))(x)
    expected = torch.zeros_like(x)
    expected[:, rows] = 2 * x[:, rows]
    torch.testing.assert_close(gradients, expected)
