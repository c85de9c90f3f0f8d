"""The program of a forked process: what `python` does with its arguments. See `forking.Forked`."""

import atexit
import os
import runpy
import sys
from contextlib import suppress
from multiprocessing import forkserver, util
from pathlib import Path

arguments, environment, files, path, own_session = (
    globals()[name] for name in ("arguments", "environment", "files", "path", "own_session")
)


def fork_a_server():
    """Starts the fork server of this process as a copy of it, which has imported all that is needed."""

    def forked(program, words, passed):
        if child := os.fork():
            return child
        try:
            for opened in list(Path("/dev/fd").iterdir()):
                with suppress(OSError):  # what listed them is closed
                    if int(opened.name) not in (0, 1, 2, *passed):
                        os.close(int(opened.name))
            exec(words[-1])  # noqa: S102 (as python -c does)
        finally:
            os._exit(0)

    start, util.spawnv_passfds = util.spawnv_passfds, forked
    forkserver.set_forkserver_preload([])
    forkserver.ensure_running()
    util.spawnv_passfds = start


os.environ.update(environment)
sys.path[:] = path
for descriptor, file in enumerate([os.devnull, *files]):
    opened = os.open(file, os.O_RDWR | os.O_CREAT)
    os.dup2(opened, descriptor)
    os.close(opened)
if own_session:
    os.setsid()
    fork_a_server()
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
