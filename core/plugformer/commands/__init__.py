"""The command line: one module for each command, and `main`, which puts them together.

Importing these modules imports neither torch nor pydantic nor any plugin; what a command needs beyond names
and manifests it imports when it runs. What the commands of other packages take from here is in `__all__`.
"""

from typing import TYPE_CHECKING

from plugformer.commands.listing import save_check
from plugformer.commands.parameters import (
    AsJson,
    Device,
    LocalManifest,
    RunPath,
    Settings,
    TaskName,
    examples,
    installed,
)
from plugformer.commands.printing import print_device, print_text
from plugformer.faults import cause_of
from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.commands.probing import import_faults

__all__ = [
    "AsJson",
    "Device",
    "LocalManifest",
    "RunPath",
    "Settings",
    "TaskName",
    "cause_of",
    "examples",
    "import_faults",
    "installed",
    "print_device",
    "print_text",
    "save_check",
]

if not TYPE_CHECKING:  # starts processes, which `--help` does not; a type checker still sees a misspelt name
    __getattr__ = lazily(__name__)
