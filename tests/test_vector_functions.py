"""What a process computes first is computed as later, however busy the machine is."""

import torch

from plugformer.reproducibility import VECTOR_FUNCTIONS, warm_up_mkl


def test_each_is_called_on_one_number_before_a_model_is_there(tiny_model, monkeypatch):
    """The race itself cannot be made to happen: of 180 processes on a busy machine it was lost by five."""
    calls = set()

    def recorded(name):
        function = getattr(torch, name)

        def record(tensor):
            calls.add((name, tensor.dtype, tensor.numel()))
            return function(tensor)

        return record

    for name in VECTOR_FUNCTIONS:
        monkeypatch.setattr(torch, name, recorded(name))
    warm_up_mkl.cache_clear()
    tiny_model()
    assert calls >= {
        (name, dtype, 1) for name in VECTOR_FUNCTIONS for dtype in (torch.float32, torch.float64)
    }
    calls.clear()
    warm_up_mkl()
    assert not calls
