"""Damaged and made-up inputs: they are read or refused; nothing in them is executed, no answer is wrong."""

import gzip
import json
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from unittest.mock import ANY

import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml
from hypothesis import strategies as st
from tests.columns import LABELS

from plugformer.configuration import dump, resolve
from plugformer.configuration.overrides import read_overrides
from plugformer.registry import Kind, Registry
from plugformer.runs import store
from plugformer.runs.checkpoint import TrainingState, load_checkpoint
from plugformer.runs.loading import load
from plugformer.validation import validate
from plugformer_plugins.data.table import TabularData

ROOT = Path(__file__).parents[2]
TASKS = [path.read_bytes() for path in sorted(ROOT.glob("tasks/plugformer_tasks/**/*.yaml"))]
MANIFESTS = [
    path.read_bytes() for path in (ROOT / "registry.yaml", *ROOT.glob("examples/*/**/registry.yaml"))
]
PIECES = [
    b"&a ", b"*a", b"<<: *a\n", b"!!python/object/apply:os.system [echo]", b"!!python/name:canary.Canary ",
    b"canary:Canary", b"registry: canary.yaml\n", b"extends: dates\n", b"---\n", b": ", b"- ", b"[" * 5000,
    b"{a: " * 50, b"\t", b"\n", b"\r", b"|", b"'", b'"', b",", b"#", b"9" * 5000, b".nan", b"NaN", b"null",
    b"1e999", b"true", b"-1", b"0", b'"\\ud800"', b'"F32"', b'"shape":[9223372036854775807,2', b"x" * 140_000,
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\x80\x04K\x01.",
]  # fmt: skip
BOMB = b"a: &a [x, x]\n" + b"".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]\n".encode() for below, name in pairwise("abcdefghi")
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 70)
    | st.sampled_from([2**16, 2**31, 2**63, 10**30, -(2**63)])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["canary:Canary", "../../x", "/etc/passwd", "a" * 500, "\ud800", "on", "[", "*a"])
)


@st.composite
def damaged(draw: st.DrawFn, originals: Sequence[bytes]) -> bytes:
    """Draws valid content with a few places cut out, doubled or replaced; or any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60) | st.just(BOMB))
    content = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from([0, 0, 1, 2, 8, 64, 10**6])))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=6) | st.just(content[start:end] * 2))
        content = content[:start] + piece + content[end:]
    return content


@st.composite
def altered(draw: st.DrawFn, tree: dict, words: Sequence[str]) -> bytes:
    """Draws a valid document, as JSON, with one to three values exchanged, removed or added."""
    tree = json.loads(json.dumps(tree))
    values = st.recursive(
        SCALARS | st.sampled_from(words),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(words), inner, max_size=3)
        ),
        max_leaves=8,
    )
    for _ in range(draw(st.integers(1, 3))):
        node: dict | list = tree
        while keys := list(node) if isinstance(node, dict) else list(range(len(node))):
            key = draw(st.sampled_from(keys))
            if isinstance(node[key], dict | list) and draw(st.booleans()):
                node = node[key]
                continue
            if draw(st.integers(0, 3)):
                node[key] = draw(values)
            else:
                del node[key]
            break
    return json.dumps(tree).encode()


def words_of(tree: object) -> set[str]:
    """Returns all keys and texts of a document."""
    if isinstance(tree, dict):
        return {str(key) for key in tree}.union(*map(words_of, tree.values()))
    if isinstance(tree, list):
        return set().union(*map(words_of, tree))
    return {tree} if isinstance(tree, str) else set()


@pytest.fixture(scope="module")
def whole(registry) -> dict:
    """The task `dates` with every default written out."""
    return yaml.safe_load(dump(validate(resolve("dates", [], registry)).task))


def test_task_files(fuzz, registry, whole, tmp_path):
    """Altered ones to the end: their components are imported and tried."""
    file = tmp_path / "task.yaml"
    words = sorted(words_of(whole) | {entry.name for entry in registry.entries()})

    def read(content):
        file.write_bytes(content)
        validate(resolve(str(file), [], registry))

    fuzz(damaged(TASKS) | altered(whole, words), read)


def test_manifests(fuzz, tmp_path):
    file = tmp_path / "registry.yaml"
    tree = yaml.safe_load(MANIFESTS[0])

    def read(content):
        file.write_bytes(content)
        Registry.discover(file).entries()

    fuzz(damaged(MANIFESTS) | altered(tree, sorted(words_of(tree))), read)


def test_settings(fuzz):
    keys = st.sampled_from(["model.width", "training", "data.files.train", ".", "a..b", "", "model.1"])
    values = st.binary(max_size=30).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
    tokens = st.lists(st.sampled_from(PIECES).map(lambda raw: raw.decode("latin-1")) | values, max_size=4)
    pairs = st.tuples(keys, st.just("="), tokens.map("".join)).map("".join)
    fuzz(st.lists(pairs | values, max_size=3), read_overrides)


def changed(original: bytes, name: str) -> st.SearchStrategy[bytes]:
    if not name.endswith(".json") or not isinstance(tree := json.loads(original), dict) or not tree:
        return damaged([original])
    return damaged([original]) | altered(tree, sorted(words_of(tree)) or ["0"])


@pytest.mark.parametrize("name", ["task.yaml", "lock.json", "tokenizer-shared.json", "model.safetensors"])
def test_runs(fuzz, run_copy, registry, name):
    file = run_copy / name

    def use(content):
        file.write_bytes(content)
        load(run_copy, registry).predict(["May 1, 2001"])

    fuzz(changed(file.read_bytes(), name), use)


@pytest.mark.parametrize("name", ["state.json", "model.safetensors", "training.safetensors"])
def test_checkpoints(fuzz, run_copy, registry, monkeypatch, name):
    """Their checksums are right: whoever changed the file made them, too."""
    monkeypatch.setattr(store, "_checksum_of", lambda _: ANY)
    folder = run_copy / "checkpoints"
    last = sorted(folder.glob("step-*"))[-1]
    content = (last / name).read_bytes()
    copy = shutil.copytree(folder, run_copy.parent / "whole")
    trained = load(run_copy, registry)
    block = trained.task.training.optimizer
    optimizer = registry.create(Kind.OPTIMIZER, block.name, **block.options)

    def resume(content):
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        (last / name).write_bytes(content)
        state = TrainingState(trained.model, optimizer.build(trained.model.named_parameters()))
        load_checkpoint(folder, state, str)
        assert all(type(number) is int for number in (state.progress.step, state.progress.batch))

    fuzz(changed(content, name), resume)


def parquet(**columns: list) -> bytes:
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


TABLES = {
    ".csv": [b'text,label\nfine,good\n"a, ""b""",bad\n', "text,label\nschön,好\nно,1\n".encode()],
    ".tsv": [b"text\tlabel\nfine\tgood\nso so\tbad\n"],
    ".jsonl": [b'{"text": "fine", "label": 1}\n{"text": "bad", "label": 0}\n'],
    ".parquet": [
        parquet(text=["fine", "bad"] * 5, label=[1, 0] * 5),
        parquet(text=["a", None], label=["x", "y"]),
    ],
    ".csv.gz": [gzip.compress(b"text,label\nfine,good\n")],
}


@pytest.mark.parametrize("suffix", TABLES)
def test_tables(fuzz, tmp_path, suffix):
    file = tmp_path / f"data{suffix}"

    def read(content):
        file.write_bytes(content)
        for policy in ("skip", "refuse"):
            data = TabularData(files={"train": file}, bad_rows=policy).load(LABELS)
            assert all(example["text"].strip() for example in data["train"])

    fuzz(damaged(TABLES[suffix]), read)
