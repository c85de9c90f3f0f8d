"""Makes a component in a process of its own: reads which, and what to do, as JSON from standard input."""

import importlib
import importlib.util
import json
import sys
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from plugformer.interfaces import Data, Tokenizer
from plugformer.registry import checked_options


def main() -> None:
    """Imports the class and makes the component; trains and saves a tokenizer, writes the version of data."""
    order: dict[str, Any] = json.load(sys.stdin)
    cls: Any = reduce(getattr, order["class"].split("."), _module(order["module"], order["file"]))
    component: Tokenizer | Data = cls(**checked_options(cls, order["options"], order["class"]))
    file = Path(order["save"])
    if isinstance(component, Data):
        file.write_text(component.version(), encoding="utf-8")
    else:
        component.train(iter(order["texts"]))
        component.save(file)


def _module(name: str, file: str) -> ModuleType:
    """Imports a module by its name or, if that is known to the calling process alone, from its file."""
    try:
        return importlib.import_module(name)
    except ImportError:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module


if __name__ == "__main__":
    main()
