"""Paths of the author's machine, which no published file may name."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

_FOLDERS = (
    "Users|Volumes|content|data|gpfs|home|kaggle|lustre|media|mnt|nfs|opt|private|projects|root|scratch|srv"
    "|storage|tmp|usr|var|work|workspace"
)
"""Folders in which people and clusters keep files."""

_INSIDE = re.compile(
    rf"(?<![\w/.:>~])/(?:{_FOLDERS})(?:/[^\s/\"'`,;:|<>()]+)+|(?<!\w)[A-Za-z]:[\\/]+[^\s\"'`,;:|<>()]+"
)
"""An absolute path within a text, POSIX or Windows."""


def short_names(*values: Any) -> dict[str, str]:
    """Returns for each path within values of JSON as many of its last names as tell it from the others."""
    short, parts = {}, {}
    for path in paths_in(values):
        parts[path] = (PurePosixPath if path.startswith("/") else PureWindowsPath)(path).parts[1:]
    for path, names in parts.items():
        others = [other for other in parts.values() if other != names]
        counts = (n for n in range(1, len(names)) if all(other[-n:] != names[-n:] for other in others))
        short[path] = "/".join(names[-next(counts, len(names)) :])
    return short


def shortened(value: Any, short: Mapping[str, str]) -> Any:
    """Returns a value of JSON with short names in place of paths, keys of mappings included."""
    if isinstance(value, Mapping):
        return {shortened(key, short): shortened(item, short) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(item, short) for item in value]
    if isinstance(value, str):
        for path in sorted(short, key=len, reverse=True):  # a path may begin like another
            value = value.replace(path, short[path])
    return value


def paths_in(value: Any) -> Iterator[str]:
    """Yields the absolute paths within a value of JSON, and within its texts."""
    if isinstance(value, Mapping):
        yield from paths_in([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from paths_in(item)
    elif isinstance(value, str):
        yield from [value] if _is_path(value) else (match[0] for match in _INSIDE.finditer(value))


def _is_path(text: str) -> bool:
    """Returns whether a text as a whole is an absolute path, in a folder that people or this machine have."""
    if PureWindowsPath(text).is_absolute() and PureWindowsPath(text).drive:
        return True
    parts = PurePosixPath(text).parts
    if len(parts) < 3 or parts[0] != "/" or "\n" in text:
        return False
    return re.fullmatch(_FOLDERS, parts[1]) is not None or Path("/", parts[1]).is_dir()
