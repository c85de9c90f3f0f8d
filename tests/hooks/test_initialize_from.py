"""Starting from another run: its tokenizers and parts of its model, and what does not fit."""

import json
import shutil

import pytest
import torch
from tests.training.interrupted import Killer, assert_same_end

from plugformer.configuration import resolve
from plugformer.configuration.resolving import check_components
from plugformer.errors import ConfigurationError
from plugformer.hooks import hookimpl
from plugformer.runs.loading import load
from plugformer.runs.store import load_tensors
from plugformer.training.train import resume, train
from plugformer.validation import validate

PARTS = "[encoder, embedding]"


def hooks(run, parts=PARTS, others=""):
    return f"training.callbacks=[{{name: initialize_from, run: {run}, parts: {parts}}}{others}]"


def taking(run, parts=PARTS, *others):
    return (f"tokenizer.run={run}", hooks(run, parts), *others)


class First:
    """Keeps the values before the first update."""

    @hookimpl
    def run_started(self, run):
        self.values = {name: each.clone() for name, each in run.model.state_dict().items()}


def taken(name):
    return name.startswith("encoder.") or ".embedding." in name


@pytest.fixture(scope="module")
def begun(train_tiny, trained, tmp_path_factory):
    """A run that began with another one's, and its values before the first update."""
    out, first = tmp_path_factory.mktemp("begun") / "run", First()
    train_tiny(out, *taking(trained.directory), "data.size=80", "training.seed=3", callbacks=[first])
    return out, first.values


def test_parts_have_the_values_of_the_other_run(begun, train_tiny, trained, tmp_path):
    fresh = First()
    train_tiny(
        tmp_path / "fresh",
        f"tokenizer.run={trained.directory}",
        "data.size=80",
        "training.seed=3",
        callbacks=[fresh],
    )
    theirs = load_tensors(trained.directory / "model.safetensors")
    _, values = begun
    assert {name for name in theirs if taken(name)} < theirs.keys()
    for name in theirs:
        expected = theirs if taken(name) else fresh.values
        assert torch.equal(values[name], expected[name]), name


def test_tokenizers_are_those_of_the_other_run(begun, trained):
    out, _ = begun
    name = "tokenizer-shared.json"
    assert (out / name).read_bytes() == (trained.directory / name).read_bytes()
    assert f"run: {trained.directory}" in (out / "task.yaml").read_text()


def test_the_lock_says_what_was_taken(begun, trained):
    lock = json.loads((begun[0] / "lock.json").read_text())["other_runs"]
    assert lock["models"].keys() == {str(trained.directory)}
    assert lock["tokenizers"].keys() == {"run", "tokenizer-shared"}


def test_the_other_run_is_needed_no_more(train_tiny, trained, tmp_path):
    """Neither to load the run nor to resume it, once it has a checkpoint."""

    other = shutil.copytree(trained.directory, tmp_path / "other")
    settings = (*taking(other), "training.seed=3")
    train_tiny(tmp_path / "whole", *settings)
    with pytest.raises(KeyboardInterrupt):
        train_tiny(tmp_path / "killed", *settings, callbacks=[Killer(6)])
    shutil.rmtree(other)
    resume(tmp_path / "killed", notify=str)
    assert_same_end(tmp_path / "whole", tmp_path / "killed")
    assert load(tmp_path / "killed").predict(["May 1, 2001"])


def test_frozen_parts_keep_the_values(train_tiny, trained, tmp_path):
    out = tmp_path / "run"
    freeze = ", {name: freeze, parameters: [encoder]}"
    train_tiny(out, f"tokenizer.run={trained.directory}", hooks(trained.directory, PARTS, freeze))
    mine, theirs = (load_tensors(run / "model.safetensors") for run in (out, trained.directory))
    encoder = [name for name in mine if name.startswith("encoder.")]
    assert all(torch.equal(mine[name], theirs[name]) for name in encoder)


def test_paths_are_relative_to_the_file_that_wrote_them(trained, tmp_path):
    shutil.copytree(trained.directory, tmp_path / "other")
    (tmp_path / "task.yaml").write_text(
        "extends: dates\ntokenizer: {run: other}\n"
        "training: {callbacks: [{name: initialize_from, run: other, parts: [encoder]}]}\n"
    )
    task = check_components(resolve(str(tmp_path / "task.yaml"))).task
    assert task.tokenizer.run == str(tmp_path / "other")
    assert str(task.training.callbacks[0].options["run"]) == str(tmp_path / "other")
    assert task.tokenizer.source.name == "characters"


TINY = ("model.width=16", "model.heads=2", "model.layers=1", "model.ffn_width=32", "model.max_length=40")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([hooks("nowhere", "[encoder]")], r"training\.callbacks\.0: no run directory .*nowhere"),
        (["tokenizer.run=nowhere"], r"tokenizer\.run: .*nowhere is not a run directory"),
        ([hooks("RUN", "[encodr]")], r"callbacks\.0: the model has no part 'encodr' .*'encoder'"),
        (
            [hooks("RUN", "[encoder]"), "model.ffn_width=24"],
            r"'encoder' of .* does not fit: encoder\.layers.*\(16, 32\).*\(16, 24\)",
        ),
        ([hooks("RUN", "[encoder]"), "model.layers=2"], r"'encoder' of .* does not fit: .* is nothing there"),
        ([hooks("RUN", "[]")], "at least 1 item"),
        (
            ["tokenizer={name: bpe, run: RUN}"],
            "tokenizer.run: the tokenizers of .* have another name or other",
        ),
    ],
)
def test_what_validate_sees(trained, settings, words):
    given = [each.replace("RUN", str(trained.directory)) for each in settings]
    shapes = [each for each in TINY if each.partition("=")[0] not in {one.partition("=")[0] for one in given}]
    with pytest.raises(ConfigurationError, match=words):
        validate(resolve("dates", [*shapes, *given]))


def test_vocabularies_must_be_equal(train_tiny, trained, tmp_path):
    with pytest.raises(ConfigurationError, match="the source vocabulary here is not that of") as caught:
        train_tiny(
            tmp_path / "run", hooks(trained.directory), "tokenizer={name: characters, min_frequency: 30}"
        )
    assert f"tokenizer: {{run: {trained.directory}}}" in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_head_of_another_type_of_task_does_not_fit(trained, tmp_path):
    (tmp_path / "rows.tsv").write_text("text\tlabel\na\tyes\nb\tno\n")
    (tmp_path / "task.yaml").write_text(f"""
type: classification
data: {{name: table, files: {{train: rows.tsv, validation: rows.tsv}}}}
tokenizer: characters
model:
  architecture: encoder-decoder
  head: classifier
training:
  callbacks: [{{name: initialize_from, run: {trained.directory}, parts: [head]}}]
""")
    with pytest.raises(ConfigurationError, match=r"'head' of [\s\S]* this task has \['no', 'yes'\], .* None"):
        train(str(tmp_path / "task.yaml"), out=tmp_path / "run", notify=str)
