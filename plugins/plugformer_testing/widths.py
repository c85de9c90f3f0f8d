"""What changes with the width of a model: the shapes of parameters by their roles, and outputs."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from plugformer import create_model
from plugformer.errors import ConfigurationError
from plugformer.interfaces import Batch, Level, Model, Role, Updates
from plugformer.model import learning_rates
from plugformer.model.parametrization import roles_of
from plugformer.registry import Kind
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import OUTPUTS, Subject

WIDTHS = (32, 128, 256)
UPDATES, RATE = 4, 0.01
MOST = 2.0  # with mup and built-in components it is at most 1.22, with standard 7.5
_ARCHITECTURES = {"plugformer:decoder-only": Level.NEXT_TOKEN, "plugformer:encoder-only": Level.TOKEN}
PROXY = {"base_width": WIDTHS[0], "base_ffn_width": 2 * WIDTHS[0]}


@contract_check()
def parameters_have_roles(subject: Subject) -> None:
    """What matrices are (inputs, hidden, outputs) fits how they grow with the width, or `roles` says it.

    Parametrizations such as mup scale initial values and learning rates by it.
    """
    module: nn.Module = subject.create()
    sizes = {name: 2 * getattr(subject.model, name) for name in ("width", "ffn_width")}
    wider, roles = dict(subject.create(**sizes).named_parameters()), roles_of(module)
    inner = dict(module.named_modules())
    said = {f"{path}.{name}".strip(".") for path in inner for name in getattr(inner[path], "roles", ())}
    require.that(said <= roles.keys(), f"`roles` names {sorted(said)}, but there are {sorted(roles)}")
    for name, parameter in module.named_parameters():
        is_map = roles[name] is Role.OUTPUT or isinstance(inner[name.rpartition(".")[0]], nn.Linear)
        if parameter.dim() > 1 and name in wider and name not in said and not is_map:
            grown = [wider[name].shape[axis] > parameter.shape[axis] for axis in (-2, -1)]
            table = roles[name] is Role.INPUT
            axes = "its last two axes grow" if table else "its last axis alone grows"
            words = f"{name} is taken to be {roles[name]}, but {axes} with the width"
            require.that(grown != [table, True], f"{words}: declare in `roles` what it is")


@contract_check(Kind.ATTENTION, Kind.FEED_FORWARD)
def updates_keep_their_size(subject: Subject) -> None:
    """With mup, a few updates change the activations of each part of a model as much at any width."""
    component = {subject.kind.value: (subject.component, dict(subject.options))}
    parametrization = (subject.registry.load(Kind.PARAMETRIZATION, "plugformer:mup"), PROXY)
    require_one_size(component | {"parametrization": parametrization})


def require_one_size(settings: Mapping[str, Any]) -> None:
    """Requires that a few updates by Adam change the output of each part as much at any width."""
    changes = [_changes(width, settings) for width in WIDTHS]
    for path, first in changes[0].items():
        sizes = [first, *(each[path] for each in changes[1:])]
        words = (
            f"{UPDATES} updates change the output of {path} by {', '.join(f'{size:.2g}' for size in sizes)}"
        )
        same = max(sizes) <= MOST * min(sizes)
        require.that(same, f"{words} at widths {', '.join(map(str, WIDTHS))}, expected about as much at each")


def _changes(width: int, settings: Mapping[str, Any]) -> dict[str, float]:
    """Returns the root mean square of how much a few updates change the output of each part of a model."""
    model = _model(width, settings)
    draw = torch.Generator().manual_seed(7)
    rows = torch.randint(4, 13, (6, 10), generator=draw).tolist()
    if model.level is Level.NEXT_TOKEN:
        batch = model.batch(outputs=rows)
    else:
        batch = model.batch(inputs=rows, targets=[[token % OUTPUTS for token in row] for row in rows])
    rates = learning_rates(model, lambda *_: Updates.ADAPTIVE)
    named = model.named_parameters()
    groups = [{"params": [values], "lr": RATE * rates.get(path, 1.0)} for path, values in named]
    optimizer, before = torch.optim.Adam(groups), _outputs(model, batch)
    for _ in range(UPDATES):
        optimizer.zero_grad()
        loss = model(batch)
        (loss.total / loss.targets + loss.auxiliary).backward()
        optimizer.step()
    after = _outputs(model, batch)
    return {path: (after[path] - values).square().mean().sqrt().item() for path, values in before.items()}


def _model(width: int, settings: Mapping[str, Any]) -> Model:
    """Returns a small model of this width, a decoder, or an encoder if a component refuses decoders."""
    shared: dict[str, Any] = {"width": width, "heads": 4, "ffn_width": 2 * width, "layers": 1, "dropout": 0.0}
    shared |= {"position": "none", **settings}  # which suits every attention
    for name, level in _ARCHITECTURES.items():
        with suppress(ConfigurationError):
            return create_model(name, vocabulary=13, level=level, outputs=OUTPUTS, **shared)
    pytest.skip("neither a decoder nor an encoder takes it")


def _outputs(model: Model, batch: Batch) -> dict[str, Tensor]:
    """Returns the outputs of sublayers, residual connections and the head; embeddings are not among them."""
    found: dict[str, Tensor] = {}

    def note(path: str, *call: Any) -> None:
        found[path] = call[-1].detach()

    watched = [path for path in model.parts if "position" not in path.split(".")]
    hooks = [model.get_submodule(path).register_forward_hook(partial(note, path)) for path in watched]
    with torch.no_grad():
        model.eval().logits(batch)
    model.train()
    for hook in hooks:
        hook.remove()
    return found
