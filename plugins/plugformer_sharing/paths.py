"""Paths of the author's machine, which no published file may name."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any

_FOLDERS = (
    *(
        "Users",
        "Volumes",
        "content",
        "data",
        "gpfs",
        "home",
        "kaggle",
        "lustre",
        "media",
        "mnt",
        "nfs",
        "opt",
    ),
    *("private", "projects", "root", "scratch", "srv", "storage", "tmp", "usr", "var", "work", "workspace"),
)
"""Folders in which people and clusters keep files."""

_INSIDE = re.compile(
    rf"(?<![\w/.:>~])/(?:{'|'.join(_FOLDERS)})(?:/[^\s/\"'`,;:|<>()]+)+"
    r"|(?<!\w)[A-Za-z]:[\\/]+[^\s\"'`,;:|<>()]+"
)
"""An absolute path within a text, POSIX or Windows."""


def is_path(text: str) -> bool:
    """Returns whether a text as a whole is an absolute path, in a folder that people or this machine have."""
    if PureWindowsPath(text).is_absolute() and PureWindowsPath(text).drive:
        return True
    parts = PurePosixPath(text).parts
    if len(parts) < 3 or parts[0] != "/" or "\n" in text:
        return False
    return parts[1] in _FOLDERS or Path("/", parts[1]).is_dir()


class PathShortener:
    """Replaces each absolute path by its last names, as few as tell it from all others.

    Args:
        paths: All paths that will be replaced.

    Attributes:
        replaced: The paths that were replaced so far, and their short forms.
    """

    def __init__(self, paths: Iterator[str] | set[str]) -> None:
        self._short = _distinct(set(paths))
        self.replaced: dict[str, str] = {}

    @classmethod
    def of(cls, *values: Any) -> "PathShortener":
        """Returns one for all paths within values of JSON."""
        return cls({path for value in values for path in paths_in(value)})

    def value(self, value: Any) -> Any:
        """Returns a value of JSON without absolute paths, keys of mappings included."""
        if isinstance(value, Mapping):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Returns a text without absolute paths."""
        if is_path(text):
            return self._shorten(text)
        for path in sorted(self._short, key=len, reverse=True):  # a path may begin like another
            if path in text:
                text = text.replace(path, self._shorten(path))
        return _INSIDE.sub(lambda match: self._shorten(match[0]), text)

    def _shorten(self, path: str) -> str:
        self.replaced[path] = self._short.get(path) or _pure(path).name
        return self.replaced[path]


def paths_in(value: Any) -> Iterator[str]:
    """Yields the absolute paths within a value of JSON, and within its texts."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from paths_in(key)
            yield from paths_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from paths_in(item)
    elif isinstance(value, str) and is_path(value):
        yield value
    elif isinstance(value, str):
        yield from (match[0] for match in _INSIDE.finditer(value))


def _pure(path: str) -> PurePath:
    return PurePosixPath(path) if path.startswith("/") else PureWindowsPath(path)


def _distinct(paths: set[str]) -> dict[str, str]:
    """Returns for each path as many of its last names as tell it from the others."""
    parts = {path: [part for part in _pure(path).parts if part != _pure(path).anchor] for path in paths}
    short = {}
    for path, names in parts.items():
        others = [other for key, other in parts.items() if key != path]
        count = next(
            (n for n in range(1, len(names)) if all(other[-n:] != names[-n:] for other in others)), len(names)
        )
        short[path] = "/".join(names[-count:])
    return short
