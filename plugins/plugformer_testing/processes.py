"""Runs a function with a component in another process, where hash tables and threads have another order."""

import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from plugformer_testing.contract import NotApplicable, Violation
from plugformer_testing.subject import Subject

T = TypeVar("T")

_OTHER_PROCESS = {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def in_another_process(subject: Subject, function: Callable[..., T]) -> T:
    """Returns `function(component, options)`, computed in another process.

    Raises:
        NotApplicable: Another process cannot import the class.
        Violation: The component raises something there.
    """
    module, name = subject.component.__module__, subject.component.__qualname__
    file = getattr(sys.modules.get(module), "__file__", None)
    if "<locals>" in name or file is None:
        raise NotApplicable(f"another process cannot import {name}, defined in a function or a notebook")
    module = "__script__" if module == "__main__" else module  # __main__ is another module there
    local = subject.entry.distribution == "local"
    # Files of installed components do not change, so that they share a process; it takes seconds to start.
    pool = _pool() if local else _shared_pool()
    try:
        return pool.submit(_call, function, module, file, name, dict(subject.options)).result()
    except Exception as error:
        _shared_pool.cache_clear()  # its process may have ended
        raise Violation(f"in another process it fails: {type(error).__name__}: {error}") from error
    finally:
        if local:
            pool.shutdown()


def _pool() -> ProcessPoolExecutor:
    pool = ProcessPoolExecutor(1, get_context("spawn"))
    with patch.dict(os.environ, _OTHER_PROCESS):
        pool.submit(int).result()  # starts the process
    return pool


_shared_pool = cache(_pool)


def _call(function: Callable[..., T], module: str, file: str, name: str, options: dict[str, Any]) -> T:
    """Imports the class, from its file if only the other process knows its module, and calls the function."""
    sys.path.append(str(Path.cwd()))  # as with `python -m`
    try:
        importlib.import_module(module)
    except ImportError:
        spec: Any = importlib.util.spec_from_file_location(module, file)
        sys.modules[module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module])
    return function(pkgutil.resolve_name(f"{module}:{name}"), options)
