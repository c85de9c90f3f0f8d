"""Runs that somebody has tampered with: refused by name of the file, nothing outside of them is touched."""

import json
import os
import re
import shutil

import pytest
import torch

from plugformer.errors import RunError
from plugformer.runs.directory import RunDirectory
from plugformer.runs.loading import load
from plugformer.runs.store import load_note, load_tensors, read_json, save_tensors
from plugformer.training.train import resume
from plugformer_inspection.history import read_history
from plugformer_inspection.plot import plot


def edit(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("place", ["plots/index.html", "plots"])
def test_plot_writes_through_no_link(run_copy, tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "index.html").write_text("precious")
    link = run_copy / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(outside / "index.html" if place.endswith("html") else outside)
    with pytest.raises(RunError, match=rf"{re.escape(str(link))} is a symbolic link"):
        plot(load(run_copy), run_copy / "plots", "1 2", str)
    assert [(each.name, each.read_text()) for each in outside.iterdir()] == [("index.html", "precious")]


def test_a_link_where_the_user_wants_figures_is_replaced(run_copy, tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/index.html").symlink_to(tmp_path / "precious")
    plot(load(run_copy), tmp_path / "figures", "1 2", str)
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "figures/index.html").is_symlink()


@pytest.mark.parametrize("name", ["checkpoints", "candidates", "metrics.jsonl", "evaluation.json"])
def test_resuming_writes_through_no_link(run_copy, tmp_path, name):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "step-00000001.safetensors").write_text("precious")
    file = run_copy / name
    if file.is_dir():
        shutil.rmtree(file)
    file.unlink(missing_ok=True)
    file.symlink_to(outside if "." not in name else outside / "made")  # a link to nothing would be filled
    with pytest.raises(RunError, match="is a symbolic link"):
        resume(run_copy, notify=str)
    assert [each.name for each in outside.iterdir()] == ["step-00000001.safetensors"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (
            lambda lock: lock.update(components={"norm/layer_norm": {}}),
            "components.norm/layer_norm.distribution",
        ),
        (
            lambda lock: lock["components"]["attention/mha"].update(source=5),
            "components.attention/mha.source",
        ),
        (
            lambda lock: lock["components"]["attention/mha"].update(version=None),
            "components.attention/mha.vers",
        ),
        (lambda lock: lock.update(data={"train": None}), "data.train"),
        (lambda lock: lock.update(changes=5), "changes"),
        (lambda lock: lock.update(hooks={"mine": 5}), "hooks.mine"),
        (lambda lock: lock["versions"].update(plugformer=None), "versions.plugformer"),
    ],
)
@pytest.mark.parametrize("allow", [True, False])
def test_a_lock_of_another_form_is_damaged(run_copy, change, place, allow):
    edit(run_copy / "lock.json", change)
    with pytest.raises(RunError, match=rf"lock\.json is damaged: {place}.*; take it from a backup"):
        resume(run_copy, allow_changes=allow, notify=str)


@pytest.mark.parametrize(
    "content",
    [
        '{"test": {"metrics": {"bleu": {"value": %s, "low": 0, "high": 1}}}}' % ("9" * 400),
        '{"test": {"metrics": {"bleu": {"value": "x", "low": 0, "high": 1}}}}',
        '{"test": {"metrics": {"bleu": 1}}}',
        '{"test": {"metrics": []}}',
        '{"test": null}',
        "[]",
    ],
)
def test_an_evaluation_of_another_form_is_damaged(run_copy, content):
    (run_copy / "evaluation.json").write_text(content)
    with pytest.raises(RunError, match=r"evaluation\.json is damaged: "):
        RunDirectory(run_copy).write_evaluation("test", {})
    with pytest.raises(RunError, match=r"evaluation\.json is damaged: "):
        plot(load(run_copy), run_copy / "plots", "1 2", str)


@pytest.mark.parametrize("content", ["5", "[1]", "{}", '["a", null]'])
def test_what_was_learned_of_another_form_is_damaged(run_copy, content):
    (run_copy / "learned.json").write_text(content)
    with pytest.raises(RunError, match=r"learned\.json is damaged: "):
        load(run_copy)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("lock.json", RunDirectory.open),
        ("learned.json", load),
        ("model.safetensors", load),
        ("tokenizer-shared.json", load),
        ("task.yaml", load),
        ("metrics.jsonl", lambda run: read_history(run / "metrics.jsonl")),
        ("metrics.jsonl", lambda run: RunDirectory(run).rewind_log(1)),
        ("any.json", lambda run: read_json(run / "any.json")),
        ("any", lambda run: load_note(run / "any")),
    ],
)
def test_a_pipe_is_not_waited_for(run_copy, name, read):
    (run_copy / name).unlink(missing_ok=True)
    os.mkfifo(run_copy / name)
    with pytest.raises(RunError, match=re.escape(name)):
        read(run_copy)


def test_a_flipped_bit_in_the_model_is_noticed(run_copy):
    file = run_copy / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 0x20
    file.write_bytes(content)
    with pytest.raises(RunError, match=r"model\.safetensors is damaged: its tensors have the SHA-256 \w{12}"):
        load(run_copy)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.complex64])
def test_other_types_of_numbers_are_refused(run_copy, dtype):
    file = run_copy / "model.safetensors"
    save_tensors({name: tensor.to(dtype) for name, tensor in load_tensors(file).items()}, file)
    with pytest.raises(RunError, match=f"has the type {dtype}, the model expects torch.float32"):
        load(run_copy)


def test_tensors_of_any_kind_have_a_checksum(tmp_path):
    tensors = {
        "none": torch.zeros(0, 3),
        "scalar": torch.tensor(3),
        "truth": torch.tensor([True, False]),
        "half": torch.ones(2, 2, dtype=torch.bfloat16).T,
    }
    save_tensors({name: each.contiguous() for name, each in tensors.items()}, tmp_path / "any")
    assert all(torch.equal(each, tensors[name]) for name, each in load_tensors(tmp_path / "any").items())


NESTED = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 100}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        ("normalizer", {"type": "Sequence", "normalizers": [NESTED] * 6}),
        ("version", [[]]),
        ("model", 5),
    ],
)
def test_an_absurd_vocabulary_is_refused(run_copy, key, value):
    edit(run_copy / "tokenizer-shared.json", lambda vocabulary: vocabulary.update({key: value}))
    with pytest.raises(RunError, match=r"tokenizer-shared\.json"):
        load(run_copy)


@pytest.mark.parametrize("number", [4294967295, 99, 5])
def test_a_token_with_a_number_of_no_row_or_of_another_token_is_refused(run_copy, number):
    edit(run_copy / "tokenizer-shared.json", lambda file: file["model"]["vocab"].update({"M": number}))
    with pytest.raises(RunError, match=r"tokenizer-shared\.json: .*number"):
        load(run_copy)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("truncation", {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 5}),
        ("padding", {"strategy": {"Fixed": 2**31}, "direction": "Right", "pad_to_multiple_of": None,
                     "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}),
    ],
)  # fmt: skip
def test_lengths_of_a_vocabulary_do_not_count(run_copy, trained, key, value):
    edit(run_copy / "tokenizer-shared.json", lambda vocabulary: vocabulary.update({key: value}))
    texts = ["May 1, 2001"]
    assert load(run_copy).predict(texts) == load(trained.directory).predict(texts)


def test_a_directory_that_is_not_utf8_is_refused_before_anything_is_done(train_tiny, tmp_path):
    with pytest.raises(RunError, match=r"b.{1,2}udcff' is not UTF-8: give another --out"):
        train_tiny(tmp_path / os.fsdecode(b"b\xff"))
    assert not list(tmp_path.iterdir())
