"""Trying a plugin's components, inside a process that it may take down with it.

This module imports torch, so that processes forked after it need not.
"""

import os
from collections.abc import Iterable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from torch import nn

from plugformer.errors import ConfigurationError, PlugformerError, RegistryError
from plugformer.hooks.manager import HookManager
from plugformer.interfaces import HeadContext, ModelContext, Place, ResidualContext
from plugformer.kinds import Kind
from plugformer.registry import Entry, EntryKind
from plugformer.registry.loading import guarded, load_attribute, load_component, load_module
from plugformer.registry.options import checked_options, options_model

_SIZES: dict[str, Any] = {"width": 24, "heads": 4, "ffn_width": 20, "max_length": 16}
_PLACES = (
    Place(),
    Place(layer=3, layers=4),
    Place(stack="decoder", causal=True),
    Place(stack="decoder", layer=11, layers=12, causal=True),
    Place(stack="decoder", layer=1, layers=2, cross=True),
)
_NEURAL = (Kind.POSITION, Kind.ATTENTION, Kind.FEED_FORWARD, Kind.NORM)


def try_entries(entries: Iterable[Entry], results: Connection, *, construct: bool) -> None:
    """Sends an empty text when it begins, then for each entry why it is broken, or an empty text.

    What the plugin prints goes nowhere.

    Args:
        entries: What to try.
        results: Where to say it.
        construct: Construct components as well, where no option is needed; otherwise import them only.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    results.send_bytes(b"")
    for entry in entries:
        results.send_bytes(_cause(entry, construct=construct).encode())


def _cause(entry: Entry, *, construct: bool) -> str:
    try:
        if entry.kind is EntryKind.HOOKS:
            HookManager([load_module(entry)], warn=lambda _: None)
        elif entry.kind not in list(Kind):
            load_attribute(entry)
        elif construct:
            _construct(entry, Kind(entry.kind))
        else:
            load_component(entry, Kind(entry.kind))
    except RegistryError as error:
        return str(error)
    return ""


def _construct(entry: Entry, kind: Kind) -> None:
    """Imports a component and, if all its options have defaults, constructs it for the first place it serves.

    Raises:
        RegistryError: Either fails, otherwise than by an error of Plugformer's about places, sizes or files.
    """
    component = load_component(entry, kind)
    if any(option.is_required() for option in options_model(component).model_fields.values()):
        return
    options = checked_options(component, {}, entry.name)
    for context in _contexts(kind):
        try:
            guarded(entry, "constructing it", partial(component, *context, **options))
        except ConfigurationError:  # it serves other places, or refuses the sizes, in the way it should
            continue
        except RegistryError:
            raise
        except PlugformerError:
            return
        return


def _contexts(kind: Kind) -> Iterator[tuple[ModelContext, ...]]:
    """Yields the first constructor arguments of a kind, for each place in turn."""
    for place in _PLACES:
        if kind is Kind.HEAD:
            yield (HeadContext(outputs=7, place=place, **_SIZES),)
        elif kind is Kind.RESIDUAL:
            sublayers = ("attention", "cross_attention", "feed_forward")
            yield (ResidualContext(sublayers=sublayers, norm=nn.Identity, place=place, **_SIZES),)
        elif kind in _NEURAL:
            yield (ModelContext(place=place, **_SIZES),)
        else:
            yield ()
            return
