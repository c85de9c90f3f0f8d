"""Who may name code: a user's own task file, and never a run, which may be somebody else's."""

from pathlib import Path

from plugformer.errors import RunError
from plugformer.problems import Problem
from plugformer.yaml_tree import MappingNode

LOCK = "lock.json"
"""What makes a folder a run, and every task file in it a part of the run."""

_REFERENCES = ("extends", "registry")


def refuse_references(tree: MappingNode, file: Path) -> None:
    """Refuses a task file of a run that names a manifest, or another task, which may name one.

    The modules of a manifest are imported. Plugformer never writes these keys into a run: they are somebody's
    addition.

    Args:
        tree: What the file says.
        file: The file.

    Raises:
        RunError: The file lies in a run, and has such a key.
    """
    folders = {file.absolute().parent, file.resolve().parent}
    if not any((folder / LOCK).exists() for folder in folders):
        return
    for key in _REFERENCES:
        if key in tree.items:
            message = "the file is part of a run, and Plugformer never writes this key into one"
            hint = (
                "do not trust it; if it is your own, remove the line and name manifests with --registry FILE"
            )
            raise RunError(str(Problem(tree.keys[key], (key,), message, hint, at_key=True)))
