"""Parts, data and questions that do not fit one another: status 2, where it stands, and what would fit."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from plugformer.training.train import train

FILES = {
    "a.conll": "a\tX\nb\tY\n\nc\tX\n",
    "a.csv": "text,second,label,number\nout,there,good,1\nof,here,bad,2\nno,where,good,3\n",
    "other.csv": "text,second,label,number\nout,there,good,1\nof,here,bda,2\n",
    "pairs.tsv": "source\ttarget\na b\tc\nb a b a b a b a\tc d\n",
    "a.txt": "a b c\n\nb c a b\n",
    "questions.txt": "a b\na b c a b c a b c a\n",
}
TAGGED = "{name: conll, files: {train: a.conll, validation: a.conll}, columns: {words: 1, tags: 2}}"
TABLE = (
    "{{name: table, files: {{train: {0}, validation: {0}, test: {1}}}, columns: {{text: text, {2}: {2}}}}}"
)
LABELED = TABLE.format("a.csv", "a.csv", "label")
PLAIN = "{name: text, files: {train: a.txt, validation: a.txt}, examples: paragraph}"


@dataclass(frozen=True)
class Wrong:
    """A task that differs from a small classification, and what is said of it.

    Attributes:
        message: A regular expression for standard error; `TASK` stands for the task file.
        command: What finds it.
        more: Further lines of the task file.
    """

    message: str
    type: str = "classification"
    data: str = LABELED
    head: str = "classifier"
    architecture: str = "encoder-only"
    max_length: int = 8
    metrics: list[str] = field(default_factory=list)
    more: str = ""
    command: str = "validate"

    def task(self) -> str:
        return (
            f"type: {self.type}\ndata: {self.data}\ntokenizer: {{name: whitespace, shared: true}}\n"
            f"model:\n  architecture: {self.architecture}\n  head: {self.head}\n"
            f"  width: 16\n  heads: 2\n  layers: 1\n  ffn_width: 16\n  max_length: {self.max_length}\n"
            f"  embeddings: {{shared: false}}\ntraining: {{steps: 1, batch_size: 2}}\n"
            f"evaluation: {{metrics: [{', '.join(self.metrics)}], samples: 0}}\n{self.more}"
        )


WRONG = {
    "head of another level": Wrong(
        r"TASK:6:9  model\.head: head 'classifier' predicts from sequence, a tagging task from token; "
        "expected 'token_classifier'",
        type="tagging",
        data=TAGGED,
    ),
    "head for tokens, not tags": Wrong(
        r"TASK:6:9  model\.head: head 'language_model' predicts text or tokens, a tagging task tags; "
        "expected 'token_classifier'",
        type="tagging",
        data=TAGGED,
        head="language_model",
    ),
    "architecture that reads what is not there": Wrong(
        r"TASK:5:17  model\.architecture: 'encoder-decoder' does not fit a language-modelling task; "
        "expected 'decoder-only'",
        type="language-modelling",
        data=PLAIN,
        head="language_model",
        architecture="encoder-decoder",
    ),
    "metric of other answers": Wrong(
        r"TASK:14:24  evaluation\.metrics\.0: metric 'tag_accuracy' measures tags, but a classification task "
        "answers with label; expected 'accuracy' or ",
        metrics=["tag_accuracy"],
    ),
    "decoding of what is not decoded": Wrong(
        r"TASK:15:18  decoding\.name: a classification task decodes nothing; take it out",
        more="decoding: {name: beam}\n",
    ),
    "data without these columns": Wrong(
        r"TASK:2:14  data\.name: the data has words and tags, and the task needs text and label;",
        data="{name: names}",
    ),
    "columns that a table does not have": Wrong(
        r"TASK:2:\d+  data\.columns: .*a\.csv:1: there is no column 'labels' \(did you mean 'label'\?\); ",
        data=LABELED.replace("label: label", "label: labels"),
    ),
    "an unseen label in a test file": Wrong(
        r"other\.csv:3: unknown label 'bda' \(did you mean 'bad'\?\); expected one of \['bad', 'good'\]; ",
        data=TABLE.format("a.csv", "other.csv", "label"),
        command="train",
    ),
    "a prompt longer than the context": Wrong(
        r"train, example 2 \('b a b a b a b a'\): its input has 8 tokens, the limit is 6 .*; raise "
        r"model\.max_length or data\.length\.max, or set data\.length\.over to drop or truncate",
        type="sequence-to-sequence",
        data="{name: table, files: {train: pairs.tsv, validation: pairs.tsv}}",
        head="language_model",
        architecture="decoder-only",
        command="train",
    ),
}


def write(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_task_whose_parts_do_not_fit(run, tmp_path, wrong):
    write(tmp_path)
    (tmp_path / "task.yaml").write_text(wrong.task())
    arguments = ["--out", "run"] if wrong.command == "train" else []
    outcome = run(wrong.command, "task.yaml", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert re.search(wrong.message.replace("TASK", r"task\.yaml"), outcome.err), outcome.err
    assert "Traceback" not in outcome.err
    assert "unexpected" not in outcome.err
    assert not (tmp_path / "run").exists()


RUNS = {
    "classes": Wrong("", metrics=["accuracy"]),
    "tags": Wrong("", type="tagging", data=TAGGED, head="token_classifier", metrics=["tag_accuracy"]),
    "numbers": Wrong(
        "",
        type="{name: regression, inputs: [text, second]}",
        data="{name: table, files: {train: a.csv, validation: a.csv}}",
        head="regressor",
    ),
    "prompts": Wrong(
        "", type="language-modelling", data=PLAIN, head="language_model", architecture="decoder-only"
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, registry):
    """A run of one update of several types."""
    folder = tmp_path_factory.mktemp("runs")
    write(folder)
    for name, task in RUNS.items():
        (folder / f"{name}.yaml").write_text(task.task())
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
