"""Files that a crash or a full disk leaves old or new, never half of one, and that are what was written."""

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import ConfigDict, TypeAdapter, ValidationError

from plugformer.errors import RunError

RESTORE = "take it from a backup or train again"
"""What to do about a damaged file."""

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}|\.step-\d+|\.candidates")
"""Names that `temporary_name` makes, and those of folders on their way out."""

CHECKSUMS = "checksums.json"
_SUMS = TypeAdapter(dict[str, str], config=ConfigDict(strict=True))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary name beside `path`; what is written there takes its place when all went well.

    A file is flushed to the disk and renamed over the old one. A folder needs a free `path`.

    Raises:
        RunError: The disk is full or the place cannot be written; `path` is as it was.
    """
    temporary = temporary_name(path)
    try:
        yield temporary
        for file in (*temporary.rglob("*"), temporary):
            _flush(file)
        temporary.replace(path)
        _flush(path.parent)
    except BaseException as error:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise RunError(
            f"{path} cannot be written: {error.strerror or error}; what was there before is kept. "
            "Make room or choose another place with --out, then go on with --resume"
        ) from error


def temporary_name(path: Path) -> Path:
    """Returns a name beside `path` that nobody else takes; `remove_leftovers` knows it."""
    return path.with_name(f".{path.name}.{uuid4().hex[:8]}")


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Removes what killed processes left in a folder under temporary names.

    Args:
        folder: The folder; it need not exist.
        name: What was written under temporary names; anything if not given.

    Raises:
        RunError: Something cannot be removed.
    """
    beginning = f".{name}." if name else "."
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if path.name.startswith(beginning) and _TEMPORARY.fullmatch(path.name):
            try:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            except OSError as error:
                raise RunError(
                    f"{path}, left by a killed process, cannot be removed: {error.strerror or error}; "
                    f"make {folder} writable"
                ) from error


def write_text(path: Path, text: str) -> None:
    """Writes a text file, replacing what was there in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Writes a value as JSON, replacing what was there in one step."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def read_json(path: Path, schema: TypeAdapter[Any] | None = None) -> Any:
    """Reads a JSON file of a run directory.

    Args:
        path: The file.
        schema: What must be in it.

    Raises:
        RunError: It is missing or damaged.
    """
    try:
        value = json.loads(read_file(path).decode())
        if schema is not None:
            schema.validate_python(value)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"])) or "the whole"
        raise RunError(f"{path} is damaged: {place}: {fault['msg']}; {RESTORE}") from error
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}; {RESTORE}") from error
    return value


def read_file(path: Path) -> bytes:
    """Reads a file of a run directory.

    Raises:
        RunError: It is missing, cannot be read, or is no file.
    """
    require_file(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}; {RESTORE}") from error


def require_file(path: Path) -> None:
    """Refuses what is no regular file: a pipe would be waited for.

    Raises:
        RunError: It is something else, missing or unreadable.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise RunError(f"{path} is missing: the run directory is damaged or incomplete") from None
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}; {RESTORE}") from error
    if not stat.S_ISREG(mode):
        raise RunError(f"{path} is damaged: expected a regular file; {RESTORE}")
    if not os.access(path, os.R_OK):
        raise RunError(
            f"{path} cannot be read: Permission denied; give yourself the right, for example with chmod u+r"
        )


def refuse_links(folder: Path) -> None:
    """Refuses a folder that symbolic links lead out of: what is written or removed there would be elsewhere.

    Raises:
        RunError: A file or folder in it is a symbolic link.
    """
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if (path := Path(place, name)).is_symlink():
                raise RunError(
                    f"{path} is a symbolic link, and nothing is written or removed through one: put the file "
                    "or folder itself there, or remove the link"
                )


def _flush(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder
    # Windows flushes only what was opened for writing; a folder cannot be.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(path: Path) -> None:
    """Removes a folder, if it is there, under another name: a crash leaves no part of it that looks whole.

    Raises:
        OSError: It cannot be renamed.
    """
    leaving = path.with_name(f".{path.name}")
    shutil.rmtree(leaving, ignore_errors=True)
    if path.exists():
        path.rename(leaving)
        shutil.rmtree(leaving, ignore_errors=True)


def write_checksums(folder: Path) -> None:
    """Writes the SHA-256 of every file of a folder beside them.

    Raises:
        OSError: A file cannot be read, or the checksums cannot be written.
    """
    sums = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")


def verify_checksums(folder: Path) -> None:
    """Compares a folder's files with their checksums.

    Raises:
        RunError: A file is missing, unreadable or not what was written.
    """
    sums = read_json(folder / CHECKSUMS, _SUMS)
    for name in sums:
        path = folder / Path(name).name
        require_file(path)
        try:
            found = _sha256(path)
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error}") from error
        if found != sums[name]:
            raise RunError(
                f"{path} is damaged: {path.stat().st_size:,} bytes with SHA-256 {found[:12]}..., "
                f"expected {sums[name][:12]}..."
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
