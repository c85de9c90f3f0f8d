"""The references of fla.ops, which need torch alone; its packages import Triton, which a CPU lacks."""

import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from plugformer.errors import ConfigurationError


@cache
def reference(operation: str, name: str) -> Callable[..., Any]:
    """Returns a function of `fla/ops/OPERATION/naive.py`, loaded by itself.

    Raises:
        ConfigurationError: The installed version of fla-core has no such file.
    """
    package = find_spec("fla")
    folders = package.submodule_search_locations if package else None
    for folder in folders or []:
        file = Path(folder, "ops", operation, "naive.py")
        if (
            file.is_file()
            and (spec := spec_from_file_location(f"plugformer_fla_{operation}", file))
            and spec.loader
        ):
            module = sys.modules[spec.name] = module_from_spec(spec)  # torch.compile looks for it there
            spec.loader.exec_module(module)
            function: Callable[..., Any] = getattr(module, name)
            return function
    raise ConfigurationError(f"fla-core has no reference of {operation!r}; install a version from 0.6")
