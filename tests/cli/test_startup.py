"""What commands import, and how they end for a reader who leaves: in processes of their own."""

import json
import os
import subprocess
import sys

IMPORTED = """
import atexit, gc, json, sys
from plugformer.__main__ import main
told = lambda: [gc.get_stats()[2]["collections"], sorted(sys.modules)]
atexit.register(lambda: print(json.dumps(told()), file=sys.stderr))
main()
"""
SEVERAL = """
import contextlib, io, json, sys
import plugformer
assert "torch" not in sys.modules
assert len(plugformer.components("attention")) > 3
outcomes = [(0, "", sorted(sys.modules))]
from plugformer_cli.main import main
for arguments in json.loads(sys.argv[1]):
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            main(arguments)
    except SystemExit as exit:
        outcomes.append((exit.code or 0, said.getvalue(), sorted(sys.modules)))
print(json.dumps(outcomes))
"""
ANSWERS = [["--help"], ["list"], ["--version"], ["train", "--help"]]
REFUSED = [
    (["train", "datse"], "did you mean"),
    (["train", "dates", "--set", "model.attention=mah"], "did you mean"),
    (["validate", "datse"], "did you mean"),
    (["info", "dates", "--set", "model.attention=mah"], "did you mean"),
    (["export", "runs/dates", "--out", "exported"], "--to"),
    (["export", "runs/dates", "--out", "exported", "--to", "onnxrutime"], "'onnxruntime'"),
]
HEAVY = {"torch", "numpy", "rich", "datasets", "tokenizers"}
CORE_MODULES = 80


def imports(*arguments):
    """Returns exit status, messages, how often garbage was looked for everywhere, and imported modules."""
    done = subprocess.run([sys.executable, "-c", IMPORTED, *arguments], capture_output=True, text=True)
    message, _, told = done.stderr.rstrip().rpartition("\n")
    searched, modules = json.loads(told)
    return done.returncode, message, searched, set(modules)


def test_answers_and_refusals_of_arguments_come_without_torch():
    """One process after another command: what is not imported at the end never was."""
    program = [
        sys.executable,
        "-c",
        SEVERAL,
        json.dumps([*ANSWERS, *(arguments for arguments, _ in REFUSED)]),
    ]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    interface, *outcomes = json.loads(done.stdout)
    for status, _, modules in (interface, *outcomes[: len(ANSWERS)]):
        assert status == 0
        assert not {*modules} & (HEAVY | {"plugformer_plugins", "plugformer_tasks"})
    for _, _, modules in (interface, *outcomes[: len(ANSWERS) - 1]):
        assert "pydantic" not in modules
    for (status, message, modules), (_, words) in zip(outcomes[len(ANSWERS) :], REFUSED, strict=True):
        assert status == 2
        assert words in message
        assert "torch" not in modules


def test_prediction_does_not_wait_for_what_reads_data_and_trains(trained):
    *_, modules = imports("predict", str(trained.directory), "March 5, 1996")
    assert "torch" in modules
    assert not modules & {"datasets", "pandas", "pyarrow", "evaluate", "torch._dynamo"}


def test_training_imports_few_modules_of_the_core(tmp_path):
    """How many a reader meets who follows `plugformer train`; no score of `dates` needs scipy.stats."""
    settings = ("--set", "data.size=60", "--set", "training.steps=1", "--out", str(tmp_path / "run"))
    status, message, searched, modules = imports("train", "dates", *settings)
    assert status == 0, message
    core = [name for name in modules if name.partition(".")[0] == "plugformer"]
    assert len(core) <= CORE_MODULES
    assert "scipy.stats" not in modules
    assert searched <= 1


def test_a_reader_who_leaves_is_no_error(manifest):
    """Also for what `print` leaves in the buffer until the end."""
    file = manifest('commands: {probe: "local_probe:command"}', local_probe="def command(): print('a word')")
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "plugformer", "--registry", str(file), "probe"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, env=buffered, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_sigterm_ends_a_command_as_ctrl_c_does(manifest):
    source = "import signal\n\ndef command():\n    signal.raise_signal(signal.SIGTERM)\n    print('on')"
    file = manifest('commands: {ended: "local_ended:command"}', local_ended=source)
    command = [sys.executable, "-m", "plugformer", "--registry", str(file), "ended"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")
