"""The program of a forked process: what `python` does with its arguments. See `forking.Forked`."""

import atexit
import os
import runpy
import sys

arguments: list[str]
environment: dict[str, str]
files: list[str]

os.environ.update(environment)
for descriptor, file in enumerate([os.devnull, *files]):
    opened = os.open(file, os.O_RDWR | os.O_CREAT)
    os.dup2(opened, descriptor)
    os.close(opened)
flag, what, *rest = arguments
sys.argv = [flag, *rest]
try:
    if flag == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 (as python -c does)
finally:
    atexit._run_exitfuncs()  # which processes of multiprocessing leave out
