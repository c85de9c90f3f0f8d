"""Run directories and checkpoints, damaged or made up: used, or refused; nothing in them is executed."""

import json
import shutil

import pytest
import torch
from hypothesis import strategies as st
from safetensors.torch import save
from tests.fuzzing.mutation import JSON_TOKENS, YAML_TOKENS, altered, as_json, damaged, documents

from plugformer.kinds import Kind
from plugformer.runs.checkpoint import TrainingState, load_checkpoint
from plugformer.runs.directory import RunDirectory
from plugformer.runs.loading import load
from plugformer_inspection.history import read_history

SHAPES = [
    b'"F32"',
    b'"I64"',
    b'"C64"',
    b'"F8_E4M3"',
    b'"shape":[1',
    b'"shape":[9223372036854775807,2',
    b"-1",
    b"[0,",
]
FILES = ["task.yaml", "lock.json", "learned.json", "tokenizer-shared.json", "model.safetensors"]
CHECKPOINT = ["state.json", "model.safetensors", "training.safetensors"]


def changed(original: bytes, name: str) -> st.SearchStrategy[bytes]:
    """Returns other contents of a file of a run."""
    if name.endswith(".safetensors"):
        return damaged([original, save({"x": torch.zeros(2)})], SHAPES)
    if name.endswith(".yaml"):
        return damaged([original], YAML_TOKENS)
    tree = json.loads(original)
    made_up = documents(["versions", "components", "data", "progress", "plugformer"]).map(as_json)
    known = damaged([original], JSON_TOKENS) | made_up
    return known | altered(tree, ["0", "step"]).map(as_json) if isinstance(tree, dict) and tree else known


@pytest.mark.parametrize("name", FILES)
def test_damaged_runs(fuzz, run_copy, registry, name):
    file = run_copy / name
    original = file.read_bytes()

    def use(content):
        file.write_bytes(content)
        load(run_copy, registry).predict(["May 1, 2001", "<pad> ü"])

    fuzz(changed(original, name), use)


@pytest.mark.parametrize("name", CHECKPOINT)
def test_damaged_checkpoints(fuzz, run_copy, registry, name):
    folder = run_copy / "checkpoints"
    last = sorted(folder.glob("step-*"))[-1]
    content = (last / name).read_bytes()
    whole = shutil.copytree(folder, run_copy.parent / "whole")
    trained = load(run_copy, registry)
    settings = trained.task.training.optimizer
    optimizer = registry.create(Kind.OPTIMIZER, settings.name, **settings.options)

    def resume(content):
        shutil.rmtree(folder)
        shutil.copytree(whole, folder)
        (last / name).write_bytes(content)
        state = TrainingState(trained.model, optimizer.build(trained.model.named_parameters()))
        load_checkpoint(folder, state, str)
        assert all(type(each) is int for each in (state.progress.step, state.progress.batch))

    fuzz(changed(content, name), resume)


def test_damaged_logs(fuzz, run_copy):
    directory = RunDirectory(run_copy)
    lines = directory.metrics.read_bytes()
    objects = st.lists(documents(["event", "step", "loss", "best", "training"]).map(as_json)).map(b"\n".join)

    def use(content):
        directory.metrics.write_bytes(content)
        try:
            read_history(directory.metrics)
        finally:
            directory.rewind_log(5)

    fuzz(damaged([lines], JSON_TOKENS) | objects, use)


def test_damaged_evaluations(fuzz, run_copy):
    file = run_copy / "evaluation.json"

    def use(content):
        file.write_bytes(content)
        RunDirectory(run_copy).write_evaluation("test", {"loss": 1.0})

    fuzz(changed(file.read_bytes(), file.name), use)
