"""What starting up imports, and that a reader who leaves is no error: in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

IMPORTED = """
import atexit, json, sys
from plugformer_cli.main import main
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
main(sys.argv[1:])
"""
HEAVY = {"torch", "numpy", "rich", "accelerate", "datasets", "tokenizers"}
OTHERS = {"plugformer_plugins", "plugformer_tasks"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["list"], ["list", "--json"], ["--version"], ["train", "--help"]]
)
def test_answers_come_without_torch_and_plugins(arguments):
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments], capture_output=True, text=True, check=True
    )
    imported = {module.partition(".")[0] for module in json.loads(done.stderr)}
    assert not imported & (HEAVY | OTHERS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "datse"],
        ["train", "dates", "--set", "model.attention=mah"],
        ["validate", "datse"],
        ["info", "dates", "--set", "model.attention=mah"],
    ],
)
def test_a_misspelled_name_is_reported_without_torch(arguments):
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments], capture_output=True, text=True, check=False
    )
    message, _, modules = done.stderr.rstrip().rpartition("\n")
    assert done.returncode == 2
    assert "did you mean" in message
    assert "torch" not in json.loads(modules)


def test_prediction_does_not_wait_for_what_reads_data_and_trains(trained):
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, "predict", str(trained.directory), "March 5, 1996"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = set(json.loads(done.stderr.splitlines()[-1]))
    assert "torch" in imported
    assert not imported & {"datasets", "pandas", "pyarrow", "accelerate", "evaluate", "torch._dynamo"}


def test_help_needs_no_pydantic():
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, "--help"], capture_output=True, text=True, check=True
    )
    assert "pydantic" not in json.loads(done.stderr)


def test_the_python_interface_is_imported_when_used():
    code = (
        "import plugformer, sys; print('torch' in sys.modules, len(plugformer.components('attention')) > 3, "
    )
    code += "'torch' in sys.modules, 'pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False", "False"]


def test_a_reader_who_leaves_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "plugformer", "list"], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_reader_who_leaves_before_the_last_line_is_no_error_either(manifest):
    """What `print` leaves in the buffer is written at the end only, when nobody takes it any more."""
    file = manifest(
        'commands: {probe: {function: "local_probe:command"}}', local_probe="def command(): print('a word')"
    )
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "plugformer", "--registry", str(file), "probe"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=buffered, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_sigterm_ends_a_command_as_ctrl_c_does(manifest):
    source = "import signal\n\ndef command():\n    signal.raise_signal(signal.SIGTERM)\n    print('on')"
    file = manifest('commands: {ended: {function: "local_ended:command"}}', local_ended=source)
    command = [sys.executable, "-m", "plugformer", "--registry", str(file), "ended"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("arguments", [["list"], ["new", "task", "mine", "--type", "classification"]])
def test_a_full_disk_behind_standard_output_is_named(arguments, tmp_path):
    command = [sys.executable, "-m", "plugformer", *arguments]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, check=False, cwd=tmp_path, env=unbuffered
        )
    assert (done.returncode, done.stderr) == (
        2,
        b"Error: [Errno 28] No space left on device\n",
    )
