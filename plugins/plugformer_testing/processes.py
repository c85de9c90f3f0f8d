"""Runs a component in another process, where hash tables differ and threads finish in another order.

Run as a module, it is that process: it reads its order as JSON from standard input.
"""

import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plugformer.interfaces import Data, Tokenizer
from plugformer.registry import checked_options
from plugformer_testing.contract import NotApplicable, require
from plugformer_testing.subject import Subject

_OTHER_PROCESS = {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def in_another_process(subject: Subject, file: Path, texts: Sequence[str] = ()) -> None:
    """Makes another process train a tokenizer on texts and save it, or write the version of data, to a file.

    Raises:
        NotApplicable: Another process cannot import the class.
        Violation: The component raises something there.
    """
    component = subject.component
    name = component.__module__
    source = getattr(sys.modules.get(name), "__file__", None)
    if "<locals>" in component.__qualname__ or source is None:
        what = f"{component.__qualname__} is defined inside a function or in a notebook"
        raise NotApplicable(f"{what}: another process cannot import it")
    order = {
        "module": "__script__" if name == "__main__" else name,  # __main__ is another module there
        "file": source,
        "class": component.__qualname__,
        "options": dict(subject.options),
        "texts": list(texts),
        "save": str(file),
    }
    other = subprocess.run(
        [sys.executable, "-m", "plugformer_testing.processes"],
        input=json.dumps(order, default=os.fspath),  # paths among the options
        env={**os.environ, **_OTHER_PROCESS, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    lines = other.stderr.strip().splitlines() or ["no message"]
    require(other.returncode == 0, f"in another process it fails: {lines[-1]}")


def main() -> None:
    """Imports the class and makes the component; saves a trained tokenizer, or writes the version of data."""
    order: dict[str, Any] = json.load(sys.stdin)
    try:
        importlib.import_module(order["module"])
    except ImportError:  # only the calling process knows this name
        spec = importlib.util.spec_from_file_location(order["module"], order["file"])
        if spec is None or spec.loader is None:
            raise
        sys.modules[order["module"]] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    cls: Any = pkgutil.resolve_name(f"{order['module']}:{order['class']}")
    component: Tokenizer | Data = cls(**checked_options(cls, order["options"], order["class"]))
    file = Path(order["save"])
    if isinstance(component, Data):
        file.write_text(component.version(), encoding="utf-8")
    else:
        component.train(iter(order["texts"]))
        component.save(file)


if __name__ == "__main__":
    main()
