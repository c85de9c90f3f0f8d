"""What a component does in another process, where hash tables differ and threads finish in another order."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from plugformer_testing.check import NotApplicable, fail
from plugformer_testing.subject import Subject

_OTHER_PROCESS = {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def in_another_process(subject: Subject, file: Path, texts: Sequence[str] = ()) -> None:
    """Makes a component in another process, which writes what becomes of it to a file.

    Args:
        subject: The component: a tokenizer, which is trained and saved, or data, which write their version.
        file: Where to.
        texts: What a tokenizer is trained on.

    Raises:
        NotApplicable: No other process can import the component's class.
        Violation: The component raises something there.
    """
    component = subject.component
    if "<locals>" in component.__qualname__ or not subject.file:
        raise NotApplicable(
            f"{component.__qualname__} is defined inside a function: no other process finds it"
        )
    order = {
        "module": component.__module__,
        "file": subject.file,
        "class": component.__qualname__,
        "options": {name: _plain(value) for name, value in subject.options.items()},
        "texts": list(texts),
        "save": str(file),
    }
    other = subprocess.run(
        [sys.executable, "-m", "plugformer_testing.other_process"],
        input=json.dumps(order),
        env={**os.environ, **_OTHER_PROCESS, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    if other.returncode:
        said = other.stderr.strip().splitlines() or ["no message"]
        fail(f"in another process it fails: {said[-1]}")


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
