"""Templates: their placeholders are replaced, and the files are written into a new folder."""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from plugformer.errors import ConfigurationError

Files: TypeAlias = dict[str, str]
"""The text of each file, by its path below the new folder."""

_PLACEHOLDER = re.compile(r"NEW_[A-Z]+|new[-_](?:plugin|component|kind|task)\b|NewComponent")


def template(path: str) -> str:
    """Returns a template's text."""
    return files("plugformer_scaffolding").joinpath("stencils", path).read_text(encoding="utf-8")


def filled(text: str, names: Mapping[str, str]) -> str:
    """Returns a template's text with the value of each placeholder."""
    return _PLACEHOLDER.sub(lambda match: names[match[0]], text)


def write(folder: Path, texts: Files) -> None:
    """Writes files into a new folder.

    Raises:
        ConfigurationError: The folder, or a file of its name, exists, or the folder cannot be created.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ConfigurationError(f"{folder} exists already; choose another folder with --out") from None
    except OSError as error:
        raise ConfigurationError(f"cannot create {folder}: {error.strerror}; give another --out") from error
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
