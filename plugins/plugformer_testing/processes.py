"""Runs a function with a component in another process, where hash tables and threads have another order."""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar
from unittest.mock import patch

from plugformer_testing.contract import NotApplicable, Violation
from plugformer_testing.subject import Subject

T = TypeVar("T")

_OTHER_PROCESS = {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def in_another_process(subject: Subject, function: Callable[..., T]) -> T:
    """Returns `function(component, options)`, computed in another process, if that can import the class."""
    module, name = subject.component.__module__, subject.component.__qualname__
    if "<locals>" in name or getattr(sys.modules.get(module), "__file__", None) is None:
        raise NotApplicable(f"another process cannot import {name}, defined in a function or a notebook")
    local = subject.entry.distribution == "local"
    # Files of installed components do not change, so that they share a process; it takes seconds to start.
    pool = _pool() if local else _shared_pool()
    try:
        return pool.submit(_call, function, f"{module}:{name}", dict(subject.options)).result()
    except ModuleNotFoundError as error:
        raise NotApplicable(f"another process cannot import {name}: {error}") from error
    except Exception as error:
        _shared_pool.cache_clear()  # its process may have ended
        raise Violation(f"in another process it fails: {type(error).__name__}: {error}") from error
    finally:
        if local:
            pool.shutdown()


def _call(function: Callable[..., T], target: str, options: dict[str, Any]) -> T:
    sys.path.append(str(Path.cwd()))  # as with `python -m`
    return function(resolve_name(target), options)


def _pool() -> ProcessPoolExecutor:
    pool = ProcessPoolExecutor(1, get_context("spawn"))
    with patch.dict(os.environ, _OTHER_PROCESS):
        pool.submit(int).result()  # starts the process
    return pool


_shared_pool = cache(_pool)
