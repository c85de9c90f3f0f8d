"""Counts what PyTorch computes, which costs a GPU about as much whatever the sizes are."""

from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode


class Operators(TorchDispatchMode):
    """Inside, operators are counted by name; views, which compute nothing, are left out.

    Attributes:
        counts: How often each operator was called.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    @property
    def products(self) -> int:
        """Number of products of two matrices."""
        return self.counts["mm"] + self.counts["addmm"]

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.counts[function.overloadpacket.__name__] += not function.is_view
        return function(*args, **(kwargs or {}))
