"""Settings and questions that do not fit a run: status 2, where it stands, and what would fit."""

import json
import re

import pytest

from plugformer.training.train import train

FILES = {
    "a.conll": "a\tX\nb\tY\n\nc\tX\n",
    "a.csv": "text,second,label,number\nout,there,good,1\nof,here,bad,2\nno,where,good,3\n",
    "a.txt": "a b c\n\nb c a b\n",
    "questions.txt": "a b\na b c a b c a b c a\n",
}
TASKS = {
    "classes": """\
type: classification
data: {name: table, files: {train: a.csv, validation: a.csv}, columns: {text: text, label: label}}
model: {architecture: encoder-only, head: classifier}
evaluation: {metrics: [accuracy]}
""",
    "tags": """\
type: tagging
data: {name: conll, files: {train: a.conll, validation: a.conll}, columns: {words: 1, tags: 2}}
model: {architecture: encoder-only, head: token_classifier}
""",
    "numbers": """\
type: {name: regression, inputs: [text, second]}
data: {name: table, files: {train: a.csv, validation: a.csv}}
model: {architecture: encoder-only, head: regressor}
""",
    "prompts": """\
type: language-modelling
data: {name: text, files: {train: a.txt, validation: a.txt}, examples: paragraph}
model: {architecture: decoder-only, head: language_model}
""",
}
BASE = """\
tokenizer: {name: whitespace, shared: true}
model: {width: 16, heads: 2, layers: 1, ffn_width: 16, max_length: 8, embeddings: {shared: false}}
training: {steps: 1, batch_size: 2}
evaluation: {samples: 0, metrics: []}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory, registry):
    """A run of one update of several types."""
    folder = tmp_path_factory.mktemp("runs")
    for name, text in {**FILES, "base.yaml": BASE}.items():
        (folder / name).write_text(text)
    for name, task in TASKS.items():
        (folder / f"{name}.yaml").write_text(f"extends: base.yaml\n{task}")
        train(str(folder / f"{name}.yaml"), out=folder / name, registry=registry, notify=str)
    return folder


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "classes",
            ["evaluate", "--set", "data.labels=[good, bad]"],
            r"the data have the classes \['good', 'bad'\], in another order than the run was trained with: "
            r"\['bad', 'good'\]; name them in this order",
        ),
        (
            "classes",
            ["evaluate", "--set", "evaluation.metrics=[accuracy, tag_accuracy]"],
            r"--set '.*'  evaluation\.metrics\.1: metric 'tag_accuracy' measures .* expected 'accuracy'",
        ),
        (
            "classes",
            ["predict", "out", "--set", "decoding.name=beam"],
            r"--set decoding\.name=beam  decoding\.name: a classification task decodes nothing; take it out",
        ),
        ("classes", ["predict", "out", "--n-best", "3"], "n_best is 3, but there are only 2 labels"),
        ("numbers", ["predict", "a"], "'a' has 1 of 2 texts; give text, second with tabs between"),
        (
            "tags",
            ["predict", "a b c a b c a b c"],
            "has 9 tokens, the model takes at most 6; shorten the text",
        ),
        (
            "prompts",
            ["predict", "--file", "FOLDER/questions.txt"],
            "text 2: no answer: 'a b c a b c a b c a'... has 10 tokens, the model takes at most 7; shorten",
        ),
    ],
)
def test_a_run_that_is_used_for_what_it_is_not(run, runs, name, arguments, message):
    command, *others = (argument.replace("FOLDER", str(runs)) for argument in arguments)
    outcome = run(command, str(runs / name), *others)
    assert outcome.status == 2
    assert re.search(message, outcome.err), outcome.err
    assert "unexpected" not in outcome.err


def test_an_answer_without_a_probability_is_printed(run, runs):
    outcome = run("predict", str(runs / "numbers"), "out\there", "--json")
    assert outcome.status == 0, outcome.err
    record = json.loads(outcome.out)
    assert isinstance(record["output"], float)
    assert record["score"] is None
    scored = run("predict", str(runs / "numbers"), "out\there", "--scores", "--threshold", "0.5")
    assert (scored.status, scored.err) == (0, "")
    assert float(scored.out) == pytest.approx(record["output"], rel=1e-5)
