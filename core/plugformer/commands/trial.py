"""Trying a plugin's components, inside a process that it may take down with it.

This module imports torch, so that processes forked after it need not.
"""

import os
from collections.abc import Iterable
from multiprocessing.connection import Connection

from plugformer.errors import PlugformerError, RegistryError
from plugformer.hooks.manager import HookManager
from plugformer.kinds import Kind
from plugformer.registry import Entry, Other
from plugformer.registry.loading import (
    advice,
    guarded,
    label,
    load_attribute,
    load_component,
    load_module,
)
from plugformer.testing.subject import Subject


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
        if entry.kind is Other.HOOKS:
            HookManager([load_module(entry.target, label(entry), advice(entry))], warn=lambda _: None)
        elif entry.kind not in list(Kind):
            load_attribute(entry.target, label(entry), advice(entry))
        elif construct:
            _construct(entry, Kind(entry.kind))
        else:
            load_component(entry, Kind(entry.kind))
    except RegistryError as error:
        return str(error)
    return ""


def _construct(entry: Entry, kind: Kind) -> None:
    """Imports a component and, if all its options have defaults, constructs it.

    Raises:
        RegistryError: Either fails, otherwise than by an error of Plugformer's about sizes or files.
    """
    subject = Subject(kind=kind, name=entry.name, component=load_component(entry, kind))
    if subject.missing_options:
        return
    try:
        guarded(label(entry), "constructing it", subject.create, advice(entry))
    except RegistryError:
        raise
    except PlugformerError:  # it refuses the sizes of the trial, in the way it should
        return
