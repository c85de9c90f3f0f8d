"""Templates and what becomes of them: stand-in names are replaced, files are written where none are yet."""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from plugformer.errors import ConfigurationError

Files: TypeAlias = dict[str, str]
"""The text of each file, by its path below the new folder."""

_STAND_IN = re.compile(r"NEW_[A-Z]+|new[-_](?:plugin|component|kind|task)\b|NewComponent")


def template(path: str) -> str:
    """Returns a template's text."""
    return files("plugformer_scaffolding").joinpath("stencils", path).read_text(encoding="utf-8")


def filled(text: str, names: Mapping[str, str]) -> str:
    """Returns a template's text with each stand-in replaced by what it stands for."""
    return _STAND_IN.sub(lambda found: names[found[0]], text)


def write(folder: Path, texts: Files) -> None:
    """Writes files into a new folder.

    Raises:
        ConfigurationError: The folder, or a file of its name, exists, or the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ConfigurationError(
            f"{folder} exists already, and nothing is overwritten; "
            "choose another name, or another folder with --out"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be made: {error.strerror}; give another --out") from error
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
