"""The messages of the first pass: structure, names and contradictions, each with its place."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.yaml_tree import Problem

MISTAKES = [
    # Unknown keys: the nearest and the known ones, at the key.
    ("model: {widht: 3}", "top.yaml:2:9  model.widht: .*(did you mean 'width'?)\n  known: architecture,"),
    ("modle: {}", "top.yaml:2:1  modle: unknown key .*(did you mean 'model'?)\n  known: data, decoding,"),
    ("1: 2", "top.yaml:2:1  1: unknown key 1"),
    # Values of another type or out of range.
    ("model: {width: wide}", "top.yaml:2:16  model.width: should be a valid integer, found 'wide'"),
    ("model: {embeddings: {tied: yes}}", "model.embeddings.tied: should be a valid boolean, found 'yes'"),
    ("model: 3", "top.yaml:2:8  model: should be a mapping, found 3"),
    ("evaluation: {metrics: accuracy}", "evaluation.metrics: should be a valid list, found 'accuracy'"),
    (
        "model: {encoder: {attention: {bias: true}}}",
        "top.yaml:2:30  model.encoder.attention.name: ",
    ),
    ("evaluation: {metrics: [{lower: true}]}", "top.yaml:2:24  evaluation.metrics.0.name: is missing"),
    ("model: {encoder: {per_layer: {first: {}}}}", "per_layer.first: .*, found 'first'"),
    ("model: {width: 0}", "model.width: should be greater than or equal to 1, found 0"),
    # Closed choices, and what may be one of two things.
    ("training: {on_nonfinite: skipp}", "training.on_nonfinite: .*, found 'skipp' (did you mean 'skip'?)"),
    ("type: translation", "top.yaml:2:7  type: unknown task_type 'translation'\n  known: classification,"),
    ("decoding: {max_length: sauce+3}", "max_length: .*, found 'sauce+3'"),
    # Names of components, wherever they may be.
    ("model: {attention: {name: gqaa}}", "top.yaml:2:27  model.attention.name: .*(did you mean 'gqa'?)"),
    ("model: {norm: layernorm}", "top.yaml:2:15  model.norm: .* 'layernorm' (did you mean 'layer_norm'?)"),
    ("tokenizer: charakters", "tokenizer.name: .* 'charakters' (did you mean 'characters'?)"),
    ("evaluation: {metrics: [acuracy]}", "evaluation.metrics.0: unknown metric 'acuracy'"),
    ("model: {attention: 'elsewhere:gqa'}", "unknown attention 'elsewhere:gqa' (did you mean 'gqa'?)"),
    # Contradictions.
    ("model: {encoder: {layers: 3, per_layer: {3: {}}}}", "top.yaml:2:45  model.encoder.per_layer.3: "),
    (
        "tokenizer: {shared: false}\nmodel: {embeddings: {shared: true}}",
        "top.yaml:3:30  model.embeddings.shared: a shared embedding needs a shared tokenizer",
    ),
    ("training: {monitor: los}", "training.monitor: .* 'los' (did you mean 'loss'?)"),
    (
        "training: {monitor: accuracy}\nevaluation: {metrics: [{name: accuracy, as: share}]}",
        "training.monitor: unknown metric 'accuracy'; expected 'loss' or 'share'",
    ),
    ("evaluation: {metrics: [accuracy, accuracy]}", "top.yaml:2:34  evaluation.metrics.1: .*'accuracy'"),
    ("evaluation: {metrics: [{name: accuracy, as: loss}]}", "evaluation.metrics.0: 'loss' is a figure"),
    ("evaluation: {metrics: [{name: accuracy, as: token_accuracy}]}", "evaluation.metrics.0: 'token_acc"),
    ("training: {steps: 3, epochs: 3}", "training: epochs and steps exclude each other"),
    ("tokenizer: {source: words, target: bpe, shared: true}", "tokenizer: a shared tokenizer is one"),
    (
        "tokenizer: {target: words}",
        "top.yaml:2:12  tokenizer: give the name of a tokenizer, or one as source",
    ),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes_have_their_place(write, base, registry, text: str, message: str) -> None:
    write("top.yaml", f"extends: base.yaml\n{text}\n")
    with pytest.raises(ConfigurationError, match=re.escape(message).replace(r"\.\*", ".*")):
        resolve("top.yaml", registry=registry)


@pytest.mark.parametrize(
    ("drop", "message"),
    [
        ("type", "base.yaml:1:1  type: is missing"),
        ("data", "base.yaml:1:1  data: is missing"),
        ("architecture", "base.yaml:5:3  model.architecture: is missing"),
        ("head", "base.yaml:5:3  model.head: is missing"),
    ],
)
def test_a_missing_key_points_to_its_mapping(write, base, registry, drop: str, message: str) -> None:
    lines = [line for line in base.read_text().splitlines() if not line.strip().startswith(f"{drop}:")]
    write("base.yaml", "\n".join(lines))
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        resolve("base.yaml", ["model.width=8"], registry)


def test_an_inherited_value_points_to_the_file_that_wrote_it(write, base, registry) -> None:
    write("base.yaml", base.read_text().replace("width: 64", "width: wide"))
    write("top.yaml", "extends: base.yaml\nmodel: {heads: 2}\n")
    with pytest.raises(ConfigurationError, match=r"^base\.yaml:6:10  model\.width: "):
        resolve("top.yaml", registry=registry)


def test_a_set_error_quotes_the_argument(base, registry) -> None:
    with pytest.raises(ConfigurationError, match=r"^--set 'model\.width=a b'  model\.width: "):
        resolve("base.yaml", ["model.width=a b"], registry)
    with pytest.raises(ConfigurationError, match=r"^--set model\.widht=3  model\.widht: unknown key"):
        resolve("base.yaml", ["model.widht=3"], registry)


def test_all_errors_come_together_in_the_order_of_the_file(write, base, registry) -> None:
    text = "model:\n  norm: rms\n  width: wide\n  attention: gqaa\ntraining: {epoch: 3}\ntypo: 1\n"
    write("top.yaml", f"extends: base.yaml\n{text}")
    with pytest.raises(ConfigurationError) as caught:
        resolve("top.yaml", registry=registry)
    places = [line.partition("  ")[0] for line in str(caught.value).splitlines() if not line.startswith(" ")]
    assert places == [f"top.yaml:{place}" for place in ("3:9", "4:10", "5:14", "6:12", "7:1")]


def test_one_mistake_in_a_tokenizer_for_both_sides_is_one_error(write, base, registry) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve("base.yaml", ["tokenizer.name=3"], registry)
    assert len(str(caught.value).splitlines()) == 1


def test_nothing_is_imported_to_check_structure_and_names(base) -> None:
    text = base.read_text().replace("{name: files, train: a.tsv}", "dates")
    base.write_text(text)
    code = (
        "import sys; from plugformer.configuration import resolve; resolve('base.yaml');"
        "print(*{'torch', 'plugformer_plugins', 'plugformer_tasks'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_origins_and_problems_are_located(base, registry) -> None:
    resolved = resolve("base.yaml", ["model.heads=2"], registry)
    assert str(resolved.tree.origin(("model", "attention", "kv_heads"))) == "base.yaml:7:36"
    assert str(resolved.tree.origin(("model", "attention", "bias"))) == "base.yaml:7:14"
    assert str(resolved.tree.origin(("model", "heads"))) == "--set model.heads=2"
    assert str(resolved.tree.origin(("tokenizer", "source", "name"))) == "base.yaml:3:19"
    assert str(resolved.tree.origin(("model", "norm", "name"))) == "base.yaml:5:3"
    place = resolved.tree.origin(("model", "width"))
    problem = Problem(place, ("model", "width"), "is odd", "make it even")
    assert str(problem) == "base.yaml:6:10  model.width: is odd\n  make it even"


def test_files_of_other_folders_are_shown_from_here(write, base, registry, tmp_path: Path) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text("extends: here/base.yaml\nmodel: {width: wide}\n")
    with pytest.raises(ConfigurationError, match=r"^\.\./outside\.yaml:2:16  model.width"):
        resolve("../outside.yaml", registry=registry)
