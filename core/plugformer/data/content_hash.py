"""Hashes of the contents of files; large files are read once, and again when size or times have changed."""

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from plugformer.cache import cache_folder, remove_unused

LARGE = 2**20
"""Bytes from which on a hash is kept: reading less takes no longer than looking it up."""

_PLACE = "hashes"


def content_hash(file: Path) -> str:
    """Returns a SHA-256 of a file's content.

    That of a large file is kept in the cache, with the file's size and the times at which its content and its
    record in the file system were changed. As long as they are the same, the file is not read.
    """
    state = file.stat()
    if state.st_size < LARGE:
        return _hash(file)
    record = cache_folder() / _PLACE / f"{state.st_dev}-{state.st_ino}.json"
    signature = [state.st_size, state.st_mtime_ns, state.st_ctime_ns]
    if (known := _known(record, signature)) is not None:
        return known
    computed = _hash(file)
    _keep(record, signature, computed)
    return computed


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _known(record: Path, signature: list[int]) -> str | None:
    """Returns the hash that is kept, unless the file may have been changed since."""
    try:
        kept = json.loads(record.read_bytes())
        # A change in the same tick of the clock as the record's own would leave the file's times as they are.
        settled = record.stat().st_mtime_ns > max(signature[1:])
    except (OSError, ValueError):
        return None
    if not settled or not isinstance(kept, dict) or kept.get("signature") != signature:
        return None
    return str(kept["hash"])


def _keep(record: Path, signature: list[int], computed: str) -> None:
    """Writes a record, as far as the cache can be written."""
    temporary = record.with_name(f"{record.stem}-{uuid4().hex}")
    with suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps({"signature": signature, "hash": computed}), encoding="utf-8")
        temporary.replace(record)
        remove_unused(record.parent)
