"""What needs an extra says so where the extra is missing."""

import json
import subprocess
import sys

import pytest

USES = """
import json, sys
missing = ["matplotlib", "mlflow", "onnxscript", "outlines_core", "ray", "sacremoses", "spacy", "starlette"]
missing += ["tensorboard", "transformers", "wandb"]
sys.modules |= dict.fromkeys(missing)
from plugformer.errors import ConfigurationError
from plugformer_ablation.executors import RayExecutor
from plugformer_constraints.hooks import output_pattern
from plugformer_export import verified
from plugformer_export.onnx import ONNX
from plugformer_export.transformers import Transformers
from plugformer_inspection import command
from plugformer_plugins.metric.sacrebleu import TokenizedBLEU
from plugformer_plugins.tokenizer.spacy_words import SpacyWords
from plugformer_serving import command as serving
from plugformer_tracking.trackers import require

TokenizedBLEU(tokenize="none")
messages = {}
for extra, use in {
    "export": lambda: verified(None, ONNX(), None),
    "figures": lambda: command.command(None, None),
    "mlflow": lambda: require("mlflow"),
    "moses": TokenizedBLEU,
    "patterns": lambda: output_pattern("[0-9]+"),
    "pretrained": lambda: verified(None, Transformers(), None),
    "ray": RayExecutor,
    "serve": lambda: serving.command(None, None),
    "spacy": SpacyWords,
    "tensorboard": lambda: require("tensorboard"),
    "wandb": lambda: require("wandb"),
}.items():
    try:
        use()
    except ConfigurationError as error:
        messages[extra] = str(error)
print(json.dumps(messages))
"""


@pytest.fixture(scope="module")
def messages():
    done = subprocess.run([sys.executable, "-c", USES], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("extra", "package"),
    [
        ("export", "onnxscript"),
        ("figures", "matplotlib"),
        ("mlflow", "mlflow"),
        ("moses", "sacremoses"),
        ("patterns", "outlines_core"),
        ("pretrained", "transformers"),
        ("ray", "ray"),
        ("serve", "starlette"),
        ("spacy", "spacy"),
        ("tensorboard", "tensorboard"),
        ("wandb", "wandb"),
    ],
)
def test_without_an_extra_the_error_says_how_to_get_it(messages, extra, package):
    assert f"needs {package}, which is not installed" in messages[extra]
    assert f"'plugformer[{extra}]'" in messages[extra]
