"""The command line: one module for each command, and `main`, which puts them together.

Importing these modules imports neither torch nor pydantic nor any plugin; what a command needs beyond names
and manifests it imports when it runs. What the commands of other packages take from here is in `__all__`.
"""

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

__all__ = [
    "AsJson",
    "Device",
    "LocalManifest",
    "RunPath",
    "Settings",
    "TaskName",
    "cause_of",
    "examples",
    "installed",
    "print_device",
    "print_text",
]
