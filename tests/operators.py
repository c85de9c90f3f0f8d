"""Counts what PyTorch computes, which costs a GPU about as much whatever the sizes are."""

from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode

NEW = ("empty", "empty_like", "new_empty")


class Operators(TorchDispatchMode):
    """Inside, operators are counted by name; views and new memory, which compute nothing, are left out.

    A cast is `_to_copy`, also in inference mode, where it is not told apart from `to`.

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
        name, result = function.overloadpacket.__name__, function(*args, **(kwargs or {}))
        if name == "to" and result.dtype != args[0].dtype:
            self.counts["_to_copy"] += 1
        elif not function.is_view and name not in NEW:
            self.counts[name] += 1
        return result
