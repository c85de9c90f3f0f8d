"""Exceptions that nobody raises on purpose: which part they come from, and where they are kept.

Nothing here runs before something has failed: the traceback says it all.
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

from plugformer.cache import cache_folder
from plugformer.errors import PlugformerError, RegistryError, described, out_of_memory, raised_in
from plugformer.registry import Entry, EntryKind
from plugformer.registry.catalog import SESSION
from plugformer.registry.loading import LOADED, class_name, label

__all__ = ["cause_of", "explained", "unexpected"]

_KEPT = 20
"""Files with tracebacks that are kept, the newest ones."""

_CLICK = ("click", "typer")
"""Packages that commands are written with, and print with."""


def explained(error: BaseException) -> PlugformerError | None:
    """Returns an error that names the part which an exception comes from; None if it comes from no part."""
    cause = cause_of(error)
    if cause is None:
        return None
    return RegistryError(f"{cause}\nthe traceback is in {save_traceback(error)}")


def unexpected(error: BaseException) -> str:
    """Returns the last words about an exception that comes from no part."""
    place = f"the traceback is in {save_traceback(error)}"
    if out_of_memory(error):
        return (
            f"Error: there is not enough memory ({described(error)})\n  for training, choose fewer tokens in "
            "a batch (training.batch_tokens), with more training.batches_per_update; "
            f"training.gradient_checkpointing; a smaller model; or shorter sequences; {place}"
        )
    if isinstance(error, RecursionError):
        return f"Error: something is nested too deeply ({described(error)})\n  {place}"
    return f"unexpected error: {described(error)}; this is a fault of Plugformer or of a plugin: {place}"


def cause_of(error: BaseException) -> str | None:
    """Returns the name of the part that an exception comes from; None if it comes from no part.

    The part is the innermost one in the traceback.
    """
    if out_of_memory(error) or isinstance(error, KeyboardInterrupt | PlugformerError):
        return None
    steps = list(traceback.walk_tb(error.__traceback__))[::-1]
    if isinstance(error, OSError) and steps and _package(steps[0][0]) in _CLICK:
        return None  # standard output cannot be written
    if isinstance(error, BrokenPipeError) and _reader_has_gone():
        return None
    packages = {_top(entry) for entry in LOADED.values() if entry.component is None}
    package = next((_package(frame) for frame, _ in steps if _package(frame) in packages), None)
    if package is None:
        return None
    entries = [entry for entry in LOADED.values() if _top(entry) == package]
    owner, entry = _owner([frame for frame, _ in steps if _package(frame) == package], entries)
    if (
        _leaves(error)
        and owner is None
        and EntryKind.COMMAND in {each.kind for each in ([entry] if entry else entries)}
    ):
        return None
    if owner is None and entries[0].owner == SESSION:
        return None  # the code around a class of a session is the user's program
    what = f"a part of {entries[0].owner}" if entry is None else label(entry)
    what = _name(owner, _model(steps)) if owner is not None else what
    return f"{what} failed: {described(error)}\nraised in {raised_in(error, package)}"


def save_traceback(error: BaseException) -> str:
    """Writes an exception's traceback to a file of its own in the cache; returns the file's path."""
    text = "".join(traceback.format_exception(error))
    name = f"{datetime.now().astimezone():%Y%m%d-%H%M%S-%f}-{os.getpid()}.txt"
    with suppress(OSError, RuntimeError):  # a cache that cannot be written, or has no place
        folder = cache_folder() / "tracebacks"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        for old in sorted(folder.glob("*.txt"))[:-_KEPT]:
            old.unlink(missing_ok=True)
        return str(folder / name)
    file = Path(tempfile.gettempdir(), f"plugformer-{name}")
    with suppress(OSError):
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
        return str(file)
    return f"no file, since none can be written:\n{text}"


Steps = Sequence[tuple[FrameType, int]]
"""Frames of a traceback with the lines where they are, the innermost first."""


def _owner(frames: Sequence[FrameType], entries: Sequence[Entry]) -> tuple[Any, Entry | None]:
    """Returns the innermost component whose method one of a plugin's frames runs, or else an entry.

    The entry is the one that the innermost frame's module belongs to; None if it belongs to none or several.
    """
    for frame in frames:
        code = frame.f_code
        owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if (entry := _entry(owner)) is not None:
            return owner, entry
    module = frames[0].f_globals.get("__name__")
    own = [entry for entry in entries if entry.target.partition(":")[0] == module]
    return None, own[0] if len(own) == 1 else None


def _entry(owner: object) -> Entry | None:
    """Returns the entry of a component's object; of its type alone, since attributes may raise anything."""
    names = map(class_name, type(owner).__mro__)
    return next((LOADED[name] for name in names if name in LOADED), None)


def _name(owner: object, model: Any) -> str:
    """Returns a component's name for messages, with its place in the model if it has one there."""
    entry = _entry(owner)
    what = type(owner).__qualname__ if entry is None else label(entry)
    places = (name for name, module in model.named_modules() if module is owner) if model is not None else ()
    place = next(iter(places), None)
    return what if place is None else f"{what} at model.{place}"


def _model(steps: Steps) -> Any:
    """Returns the model that was at work, if one was."""
    module = sys.modules.get("plugformer.interfaces.model")
    values = (value for frame, _ in steps for value in frame.f_locals.values())
    return module and next((value for value in values if module.Model in type(value).__mro__), None)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _top(entry: Entry) -> str:
    return entry.target.partition(":")[0].partition(".")[0]


def _reader_has_gone() -> bool:
    """Returns whether nobody reads standard output any more."""
    try:
        (sys.stdout or sys.__stdout__).flush()  # type: ignore[union-attr]  # a plugin may have taken it away
    except BrokenPipeError:
        return True
    return False


def _leaves(error: BaseException) -> bool:
    """Returns whether an exception is a command's way to end, or to refuse its arguments."""
    return isinstance(error, SystemExit) or type(error).__module__.partition(".")[0] in _CLICK
