"""How the checks that all torch modules share run a component of each kind."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from plugformer.registry import Kind
from plugformer_testing import head, position
from plugformer_testing.attention import Reader
from plugformer_testing.layout import PADDED, example
from plugformer_testing.probes import Turning
from plugformer_testing.subject import SUBLAYERS, Subject
from plugformer_testing.tokenwise import sublayers

_LAYOUT = PADDED[2]


def exercise(subject: Subject, module: nn.Module, dtype: torch.dtype = torch.float64) -> Tensor:
    """Runs a component on the same small example each time: a padded batch."""
    x = example(*_LAYOUT.real.shape, subject.model.width, dtype=dtype)
    return _RUN[subject.kind](subject, module, x)


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
    Kind.HEAD: lambda _, component, x: head.everything(component, x, _LAYOUT.real),
}
