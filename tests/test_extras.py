"""What needs an extra says so where the extra is missing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

USES = """
import json, sys
missing = ["ctranslate2", "matplotlib", "mlflow", "onnx", "onnxruntime", "onnxscript", "outlines_core"]
missing += ["prometheus_client", "ray", "sacrebleu", "sacremoses", "spacy", "starlette", "tensorboard"]
missing += ["transformers", "uvicorn", "wandb"]
sys.modules |= dict.fromkeys(missing)
from plugformer.errors import ConfigurationError
from plugformer_ablation.running.ray_executor import RayExecutor
from plugformer_export.verification import verified
from plugformer_export.ctranslate2 import CTranslate2
from plugformer_export.onnx import ONNX
from plugformer_export.transformers import Transformers
from plugformer_inspection import command
from plugformer_plugins.constraint.pattern import Pattern
from plugformer_plugins.metric.sacrebleu import BLEU, TokenizedBLEU
from plugformer_plugins.tokenizer.spacy_words import SpacyWords
from plugformer_serving import command as serving
from plugformer_plugins.callback.trackers import require

to_onnx = lambda: verified(None, ONNX(), None)
serve = lambda: serving.command(None, None)
messages = {}
for package, use in {
    "ctranslate2": lambda: verified(None, CTranslate2(), None),
    "matplotlib": lambda: command.command(None, None),
    "mlflow": lambda: require("mlflow"),
    "onnx": to_onnx,
    "onnxscript": to_onnx,
    "onnxruntime": to_onnx,
    "outlines_core": lambda: Pattern(expression="[0-9]+"),
    "prometheus_client": serve,
    "ray": RayExecutor,
    "sacrebleu": BLEU,
    "sacremoses": TokenizedBLEU,
    "spacy": SpacyWords,
    "starlette": serve,
    "tensorboard": lambda: require("tensorboard"),
    "transformers": lambda: verified(None, Transformers(), None),
    "uvicorn": serve,
    "wandb": lambda: require("wandb"),
}.items():
    try:
        use()
    except ConfigurationError as error:
        messages[package] = str(error)
    sys.modules.pop(package, None)  # the next ones are missed by themselves
print(json.dumps(messages))
"""


@pytest.fixture(scope="module")
def messages():
    done = subprocess.run([sys.executable, "-c", USES], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("extra", "package"),
    [
        ("export", "ctranslate2"),
        ("export", "onnx"),
        ("export", "onnxruntime"),
        ("export", "onnxscript"),
        ("figures", "matplotlib"),
        ("mlflow", "mlflow"),
        ("moses", "sacremoses"),
        ("translation", "sacrebleu"),
        ("patterns", "outlines_core"),
        ("pretrained", "transformers"),
        ("ray", "ray"),
        ("serve", "prometheus_client"),
        ("serve", "starlette"),
        ("serve", "uvicorn"),
        ("spacy", "spacy"),
        ("tensorboard", "tensorboard"),
        ("wandb", "wandb"),
    ],
)
def test_without_an_extra_the_error_says_how_to_get_it(messages, extra, package):
    assert f"needs {package}, which is not installed" in messages[package]
    assert f"'plugformer[{extra}]'" in messages[package]


def test_pytest_reads_its_options_without_any_plugin():
    """An image with a GPU has no pytest-xdist, and plugins that `tests/gpu` has to do without."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--markers", "--noconftest"],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "@pytest.mark.long" in done.stdout
