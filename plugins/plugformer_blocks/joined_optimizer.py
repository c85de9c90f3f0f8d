"""Several torch optimizers as one."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch


class JoinedOptimizer(torch.optim.Optimizer):
    """Several torch optimizers as one; each moves its own parameters.

    They share its parameter groups and its state: a schedule, or a state that is loaded, reaches them all.

    Args:
        parts: The optimizers, in the order in which they make their steps. No two have the same parameter.
    """

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = parts
        for part in parts:
            self.state.update(part.state)
        self._share()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the state of all parts."""
        super().load_state_dict(state_dict)
        self._share()

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Makes a step of each part; there is no closure."""
        del closure
        for part in self.parts:
            part.step()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self.parts:
            part.param_groups = list(islice(groups, len(part.param_groups)))
            part.state = self.state
            if isinstance(part, JoinedOptimizer):
                part._share()
