"""Checksums: whether the files of a folder are still what was written."""

import hashlib
import json
from pathlib import Path

from plugformer.errors import RunError
from plugformer.runs import schemas
from plugformer.runs.files import read_json, require_file

CHECKSUMS = "checksums.json"


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
    sums = read_json(folder / CHECKSUMS, schemas.CHECKSUMS)
    if not sums:
        raise RunError(f"{folder / CHECKSUMS} is damaged: expected the SHA-256 of each file by name")
    for name in sums:
        path = folder / Path(name).name
        try:
            require_file(path)
            found = _sha256(path)
        except (OSError, ValueError) as error:  # ValueError: a name with a null character
            raise RunError(f"{str(path)!r} cannot be read: {error}") from error
        if found != sums[name]:
            raise RunError(
                f"{path} is damaged: {path.stat().st_size:,} bytes with SHA-256 {found[:12]}..., "
                f"expected {sums[name][:12]}..."
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
