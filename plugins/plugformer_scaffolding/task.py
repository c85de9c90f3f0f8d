"""A new task: a task file, some examples, and a page about them."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from plugformer.errors import ConfigurationError
from plugformer_scaffolding.templates import Files, filled, template

DATA: Mapping[str, str] = {"sequence-to-sequence": "pairs.tsv", "classification": "texts.csv"}
"""The examples that a new task of each type starts with."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def task_files(name: str, task_type: str, folder: Path) -> Files:
    """Returns the files of a new task.

    Args:
        name: Of the task.
        task_type: Its type, a key of `DATA`.
        folder: Where the files will be, for the commands in them.

    Raises:
        ConfigurationError: The name is none.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not the name of a task; expected letters, digits, -, _ and ., a letter or digit "
            "first; --out says where the folder goes"
        )
    data = DATA[task_type]
    names = {"new-task": name, "NEW_FILE": shlex.quote(str(folder / "task.yaml")), "NEW_DATA": data}
    return {
        "task.yaml": filled(template(f"task/{task_type}.yaml"), names),
        data: template(f"task/{data}"),
        "README.md": filled(template("task/README.md"), names),
    }
