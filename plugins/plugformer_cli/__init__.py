"""The command line: `list`, `info`, `validate`, `new`, `train`, `predict` and more, and how pages are made.

Importing it imports neither torch nor pydantic nor any plugin. The names below are for commands of other
packages: the options that all commands share, text on the terminal, and the record of an answer. Figures and
pages are made by `drawing`, which needs matplotlib, and `page`.
"""

from plugformer_cli.answering import record
from plugformer_cli.evaluate import predictions
from plugformer_cli.options import (
    AsJson,
    Device,
    EngineName,
    LocalManifest,
    RunPath,
    RunSettings,
    Settings,
    TaskName,
    examples,
    installed,
    load_run,
)
from plugformer_cli.printing import print_json, print_text

__all__ = [
    "AsJson",
    "Device",
    "EngineName",
    "LocalManifest",
    "RunPath",
    "RunSettings",
    "Settings",
    "TaskName",
    "examples",
    "installed",
    "load_run",
    "predictions",
    "print_json",
    "print_text",
    "record",
]
