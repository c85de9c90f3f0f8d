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

import pytest

from plugformer.registry.options import checked_options
from plugformer_testing.subject import Subject

T = TypeVar("T")

_OTHER_PROCESS = {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def in_another_process(subject: Subject, function: Callable[..., T]) -> T:
    """Returns what a function makes of the component in another process, if that can import the class."""
    module, name = subject.component.__module__, subject.component.__qualname__
    if "<locals>" in name or getattr(sys.modules.get(module), "__file__", None) is None:
        pytest.skip(f"another process cannot import {name}, defined in a function or a notebook")
    # Files of installed components do not change, so that they share a process; it takes seconds to start.
    pool = _pool() if subject.entry.distribution == "local" else _shared_pool()
    try:
        return pool.submit(_call, function, f"{module}:{name}", dict(subject.options)).result()
    except ModuleNotFoundError as error:
        pytest.skip(f"another process cannot import {name}: {error}")


def _call(function: Callable[..., T], target: str, options: dict[str, Any]) -> T:
    sys.path.append(str(Path.cwd()))  # as with `python -m`
    component = resolve_name(target)
    return function(component(**checked_options(component, options, component.__name__)))


def _pool() -> ProcessPoolExecutor:
    pool = ProcessPoolExecutor(1, get_context("spawn"))
    with patch.dict(os.environ, _OTHER_PROCESS):
        pool.submit(int).result()  # starts the process
    return pool


_shared_pool = cache(_pool)
