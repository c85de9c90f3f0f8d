"""The program of a forked process: what `python` does with its arguments. See `forking.Forked`."""

import atexit
import os
import runpy
import sys
from pathlib import Path

arguments, environment, files = (globals()[name] for name in ("arguments", "environment", "files"))
os.environ.update(environment)
for descriptor, file in enumerate([os.devnull, *files]):
    opened = os.open(file, os.O_RDWR | os.O_CREAT)
    os.dup2(opened, descriptor)
    os.close(opened)
try:
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 (as python -c does)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).parent))
        runpy.run_path(arguments[0], run_name="__main__")
finally:
    atexit._run_exitfuncs()  # which processes of multiprocessing leave out
