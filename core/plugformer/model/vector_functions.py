"""A defect of PyTorch's functions on CPUs, kept away: the first call of each is made by one thread alone."""

from functools import cache

import torch

VECTOR_FUNCTIONS = (
    "acos",
    "asin",
    "atan",
    "cos",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "log",
    "log10",
    "log2",
    "sin",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)
"""Those that PyTorch's builds for x86 take from Intel's MKL."""


@cache
def settle_vector_functions() -> None:
    """Calls each function on one number, once in a process.

    MKL chooses a function's kernel at its first call. Where several threads make that call at the same time,
    one of them may compute its part with another kernel, whose relative errors reach 1e-4: a training would
    not be the same as another with its seed. https://github.com/pytorch/pytorch/issues/188792
    """
    for dtype in (torch.float32, torch.float64):
        number = torch.full((1,), 0.5, dtype=dtype, device="cpu")
        for name in VECTOR_FUNCTIONS:
            getattr(torch, name)(number)
