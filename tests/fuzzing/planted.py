"""The program of test_planted_code: does commands, each in a fork of a process that has imported PyTorch."""

import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path

SECONDS = 300


def run(case):
    """Does one command; ends the process."""
    os.chdir(case["folder"])
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    signal.alarm(SECONDS)
    status = 99
    try:
        importlib.import_module("plugformer_cli.main").main(case["arguments"])
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        child = os.fork()
        if not child:
            run(json.loads(line))
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()
