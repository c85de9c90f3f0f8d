"""Unexpected exceptions: the part that raised them, and the file with the traceback."""

import os
import traceback
from contextlib import suppress
from datetime import datetime
from types import FrameType

from plugformer.cache import cache_folder, remove_unused
from plugformer.errors import PlugformerError, RegistryError, described, out_of_memory, raised_in
from plugformer.registry import Entry, EntryKind
from plugformer.registry.catalog import SESSION
from plugformer.registry.discovery import LOADED, label

__all__ = ["explained", "unexpected"]

_CLICK = ("click", "typer")  # their exceptions end a command, and they write to standard output


def explained(error: BaseException) -> PlugformerError | None:
    """Returns an error that names the part that raised an exception; None if no part did."""
    cause = cause_of(error)
    return RegistryError(f"{cause}\nthe traceback is in {save_traceback(error)}") if cause else None


def unexpected(error: BaseException) -> str:
    """Returns the message about an exception that no part raised."""
    place = f"the traceback is in {save_traceback(error)}"
    if out_of_memory(error):
        return (
            f"Error: there is not enough memory ({described(error)})\n  choose fewer tokens in a batch "
            "(training.batch_tokens), with more training.batches_per_update; "
            f"training.gradient_checkpointing; a smaller model; or shorter sequences; {place}"
        )
    return f"unexpected error: {described(error)}; this is a bug in Plugformer or in a plugin: {place}"


def cause_of(error: BaseException) -> str | None:
    """Returns a sentence about the innermost part in an exception's traceback; None if there is no part."""
    if out_of_memory(error) or isinstance(error, KeyboardInterrupt | PlugformerError | BrokenPipeError):
        return None
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][::-1]
    package = _package(frames[0]) if frames else ""
    if type(error).__module__.startswith(_CLICK) or (isinstance(error, OSError) and package in _CLICK):
        return None  # the command ends, or standard output cannot be written
    for frame in frames:
        entries = [entry for entry in LOADED.values() if _is_within(frame, entry)]
        if not entries:
            continue
        module = frame.f_globals["__name__"]
        target = f"{module}:{frame.f_code.co_qualname.partition('.')[0]}"
        matching = [entry for entry in entries if entry.target == target]
        matching = matching or [entry for entry in entries if entry.target.partition(":")[0] == module]
        if isinstance(error, SystemExit) and EntryKind.COMMAND in [each.kind for each in matching or entries]:
            return None
        labels = {label(entry) for entry in matching}
        name = labels.pop() if len(labels) == 1 else f"a part of {entries[0].owner}"
        return f"{name} failed: {described(error)}\nraised in {raised_in(error, _package(frame))}"
    return None


def save_traceback(error: BaseException) -> str:
    """Writes an exception's traceback to a file in the cache; returns its path, or else the traceback."""
    text = "".join(traceback.format_exception(error))
    with suppress(OSError):
        folder = cache_folder() / "tracebacks"
        folder.mkdir(parents=True, exist_ok=True)
        remove_unused(folder)
        file = folder / f"{datetime.now().astimezone():%Y%m%d-%H%M%S-%f}-{os.getpid()}.txt"
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
        return str(file)
    return f"no file, since the cache cannot be written:\n{text}"


def _is_within(frame: FrameType, entry: Entry) -> bool:
    """Returns whether code is in the package of a part; of a session, in the class itself."""
    if entry.owner == SESSION:
        return f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}".startswith(f"{entry.target}.")
    return entry.target.partition(":")[0].partition(".")[0] == _package(frame)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
