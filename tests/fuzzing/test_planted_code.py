"""Runs and caches from somebody else: none of their code runs, no file that they link to is published."""

import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from tests.forking import PRELOADED

NUMBER = int(os.environ.get("PLUGFORMER_FUZZ") or 16)
"""Prepared runs, drawn with the same seed at every time."""

SECRET = "a-key-that-nobody-may-read"  # noqa: S105 (of nobody)
PROGRAM = Path(__file__).with_name("planted.py")
COMMIT = "c" * 40
CACHES = {
    "below one folder": ("XDG_CACHE_HOME",),
    "each by its name": (
        *("HF_HUB_CACHE", "HF_MODULES_CACHE", "HF_DATASETS_CACHE", "HF_EVALUATE_CACHE", "HF_METRICS_CACHE"),
        *("HF_ASSETS_CACHE", "HF_XET_CACHE", "TRANSFORMERS_CACHE", "PLUGFORMER_CACHE", "NUMBA_CACHE_DIR"),
        *(
            "TORCH_EXTENSIONS_DIR",
            "TORCHINDUCTOR_CACHE_DIR",
            "TRITON_CACHE_DIR",
            "TRITON_HOME",
            "TORCH_HOME",
            "MPLCONFIGDIR",
        ),
    ),
}
"""Variables that libraries read the place of a cache or of modules from."""

MODULES = (
    *("sitecustomize", "usercustomize", "torch", "numpy", "evaluate", "rouge_score", "absl", "nltk"),
    *("tensorflow", "jax", "flax", "flash_attn", "deepspeed", "torchaudio", "matplotlib", "style", "rouge"),
)
MODULE_FOLDERS = (
    *("evaluate_modules", "evaluate_modules/metrics", "evaluate_modules/metrics/evaluate-metric--rouge"),
    *(f"evaluate_modules/metrics/evaluate-metric--rouge/{'a' * 64}", "datasets_modules/datasets/me--set"),
    *(f"datasets_modules/datasets/me--set/{'a' * 64}", f"transformers_modules/me/run/{COMMIT}"),
)
COMMANDS = {
    "list": ["list"],
    "info": ["info", "run"],
    "validate": ["validate", "run/task.yaml"],
    "predict": ["predict", "run", "May 1, 2001"],
    "evaluate": ["evaluate", "run"],
    "plot": ["plot", "run", "--out", "plots"],
    "export": ["export", "run", "--to", "ctranslate2", "--out", "public/export", "--examples", "2"],
    "push": ["push", "run", "--to", "public/push", "--checkpoints"],
}
OTHERS = {
    "metric": ["evaluate", "run", "--set", "evaluation.metrics=[{name: evaluate, metric: rouge}]"],
    "data": ["evaluate", "run", "--set", "data={name: hub, dataset: me/set}"],
    "hub": ["predict", "hub:me/run", "May 1, 2001"],
    "validate hub": ["validate", "dates", "--set", "data={name: hub, dataset: me/set}"],
}


class Payload:
    """Writes the marker where it is unpickled."""

    def __init__(self, code):
        self._code = code

    def __reduce__(self):
        return exec, (self._code,)


class Planter:
    """Writes what is planted, and knows whether any of it has run."""

    def __init__(self, folder):
        self.marker = folder / "executed"
        self.secret = folder / "secret" / "key.json"
        self.secret.parent.mkdir()
        self.secret.write_text(json.dumps({"key": SECRET}))

    @property
    def code(self):
        return f"open({str(self.marker)!r}, 'a').write(globals().get('__file__', 'a pickle') + '\\n')\n"

    def contents(self):
        """Returns what may be in place of a file, by what it is; None for a link."""
        tags = f"a: !!python/object/apply:builtins.exec [{json.dumps(self.code)}]\n"
        values = {"list": "[]", "object": '{"a": {"b": [1]}}', "number": "3", "text": '"x"', "null": "null"}
        return {
            "link": None,
            "python": self.code.encode(),
            "pickle": pickle.dumps(Payload(self.code)),
            "tags": tags.encode(),
            **{name: f"{text}\n".encode() for name, text in values.items()},
        }

    def replace(self, file, kind):
        """Puts one of these contents in place of a file or folder."""
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        content = self.contents()[kind]
        if content is not None:
            file.write_bytes(content)
        else:
            file.symlink_to(self.secret if "." in file.name else self.secret.parent)

    def cache(self, folder, run):
        """Fills a folder with all that a cache may have, of whichever library."""
        for place in (
            "",
            "modules",
            "huggingface/modules",
            "hub",
            "huggingface/hub",
            "plugformer/examples",
            "lib",
        ):
            (folder / place).mkdir(parents=True, exist_ok=True)
            for name in ("__init__", *MODULES):
                (folder / place / f"{name}.py").write_text(self.code)
            for name in (
                "checkpoints/model.pth",
                "training.pt",
                "torchinductor/cache.pkl",
                "fontlist-v390.json",
            ):
                file = folder / place / name
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(self.contents()["pickle"])
            (folder / place / "matplotlibrc").write_text("backend: module://style\n")
        for place, inner in product(("", "modules", "huggingface/modules"), MODULE_FOLDERS):
            (folder / place / inner).mkdir(parents=True, exist_ok=True)
            for name in ("__init__", "rouge", "me--set", "modeling"):
                (folder / place / inner / f"{name}.py").write_text(self.code)
        for place, name in product(
            ("", "hub", "huggingface/hub"),
            ("models--me--run", "datasets--me--set", "spaces--evaluate-metric--rouge"),
        ):
            (folder / place / name / "refs").mkdir(parents=True)
            (folder / place / name / "refs/main").write_text(COMMIT)
            files = folder / place / name / "snapshots" / COMMIT
            shutil.copytree(run, files, copy_function=os.link)
            for module in ("rouge", "set", "modeling", *MODULES):
                (files / f"{module}.py").write_text(self.code)
            (files / "registry.yaml").write_text("components: {metric: {x: {class: 'modeling:X'}}}\n")


@pytest.fixture
def planter(tmp_path):
    return Planter(tmp_path)


@pytest.fixture
def problems(planter, trained, tmp_path):
    """Does commands in prepared runs, by a process with prepared caches; returns what went wrong."""

    def do(cases, variables):
        environment = {"HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
        for variable in variables:
            environment[variable] = str(tmp_path / "caches" / variable)
            planter.cache(Path(environment[variable]), trained.directory)
        lines = []
        for number, (arguments, file, kind) in enumerate(cases):
            folder = tmp_path / f"case-{number}"
            shutil.copytree(trained.directory, folder / "run", copy_function=linked)
            if file:
                planter.replace(folder / "run" / file, kind)
            lines.append(json.dumps({"folder": str(folder), "arguments": arguments}))
        (tmp_path / "cases").write_text("\n".join(lines))
        words = [sys.executable, str(PROGRAM), str(tmp_path / "cases"), *PRELOADED]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        statuses = list(map(int, done.stdout.split()))
        assert len(statuses) == len(cases), done.stderr
        found = [
            (*case, problem)
            for number, case in enumerate(cases)
            for problem in wrong(tmp_path / f"case-{number}", statuses[number], case)
        ]
        return found + planter.marker.read_text().splitlines() if planter.marker.exists() else found

    return do


def linked(source, target):
    """Copies a file, one of tensors without its content; they are only replaced as a whole."""
    (os.link if source.endswith(".safetensors") else shutil.copyfile)(source, target)


def wrong(folder, status, case):
    """Yields what a command has done that it may not do."""
    said = (folder / "output.txt").read_text(errors="replace")
    for file in (folder / "public").rglob("*") if (folder / "public").exists() else ():
        if file.is_symlink() or (file.is_file() and SECRET.encode() in file.read_bytes()):
            yield f"publishes {file.relative_to(folder)}"
    if status not in (0, 2) or "this is a bug in Plugformer" in said:
        yield f"status {status}: {said[-300:]}"


@pytest.mark.parametrize("caches", CACHES)
def test_prepared_caches(problems, caches):
    commands = [
        arguments
        for name, arguments in (COMMANDS | OTHERS).items()
        if name not in ("list", "info", "validate")
    ]
    assert not problems([(arguments, "", "") for arguments in commands], CACHES[caches])


def test_prepared_runs(problems, planter, trained):
    files = [file.relative_to(trained.directory).as_posix() for file in trained.directory.rglob("*")]
    files += ["tokenizer-zzz.json", "README.md", "registry.yaml", "evil.py", "averaging", "plots"]
    cases = sorted(product(COMMANDS, files, planter.contents()))
    drawn = random.Random(0).sample(cases, min(NUMBER, len(cases)))  # noqa: S311 (no secrets)
    assert not problems([(COMMANDS[command], file, kind) for command, file, kind in drawn], ())
