"""The gallery is what its page says: short files that keep their contracts and train.

Its own tests are run by `.ci/plugins`, from its wheel.
"""

import ast
import importlib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from tests.testing.outcomes import unsound

from plugformer.configuration import resolve
from plugformer.experiment import Experiment
from plugformer.interfaces import Batch, Tokens
from plugformer.model import Sizes, build
from plugformer.registry import Registry
from plugformer.training.train import train
from plugformer_testing.subject import Subject

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "examples" / "gallery"
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")


class Row(NamedTuple):
    """A component in the page's table."""

    name: str
    source: str
    file: str
    check: str


ROWS = [
    Row(*found)
    for found in re.findall(
        r"^\| `([\w-]+/[\w-]+)`: .* \| \[.*\]\((.*)\) \| `(.*)` \| ([^|]*)(?: \| [^|]*)? \|$",
        PAGE,
        re.MULTILINE,
    )
]
OUTSIDE = [row for row in ROWS if row.file.startswith("examples/")]
"""Those of plugins; the contracts of what is built in are tested with all that is."""
PUBLIC = (
    *("plugformer", "plugformer.errors", "plugformer.hooks", "plugformer.interfaces", "plugformer.model"),
    "plugformer.optimizer",
    "plugformer_blocks",
)
SETTINGS = {
    "attention/convolution": [
        "model.sublayers.convolution={attention: {name: convolution, kernel: 3}, after: attention}"
    ],
    "attention/cross_layer": ["model.attention=cross_layer", "model.layers=2"],
    "attention/retention": [
        "model.decoder.attention=retention",
        "model.decoder.cross_attention.attention=mha",
    ],
    "attention/sliding_window": ["model.attention={name: sliding_window, window: 2}"],
    "head/pointer_generator": ["model.head=pointer_generator", "training.optimizer={name: adamw, lr: 0.02}"],
    "optimizer/muon_adam": ["training.optimizer=muon_adam"],
    "residual/token_merging": ["model.encoder.residual=token_merging"],
}
SHORT = [
    "training.steps=10",
    "training.evaluate_every=10",
    "training.log_every=1",
    "model.width=16",
    "model.heads=2",
]
TAGGING = ["model.layers=1", *SHORT]
OWN = """\
data: {name: table, files: {train: rows.tsv, validation: rows.tsv, test: rows.tsv}}
tokenizer: words
model: {architecture: encoder-only, layers: 2, dropout: 0.0, embeddings: {shared: false}}
training: {optimizer: {name: adamw, lr: 0.01}}
"""
QUESTIONS = (
    "type: span-extraction\nmodel: {head: pointers}\nevaluation: {metrics: [squad_exact_match, squad_f1]}\n",
    ["question\tcontext\tanswer", *["Who?\tAnn is here.\tAnn", "Where?\tBob is there.\tthere"] * 8],
)
BOTH = (
    "type: label-and-number\nmodel: {head: two_heads}\n"
    "evaluation: {metrics: [label_accuracy, number_error]}\n",
    ["text\tlabel\tnumber", *["very good\tgood\t2", "bad\tbad\t1"] * 8],
)
NUMBERS = (
    "type: token-regression\nmodel: {head: word_regressor}\n"
    "evaluation: {metrics: [mean_absolute_error, root_mean_squared_error]}\n",
    ["words\tnumbers", *["a long day\t1 0.5 -0.25", "day\t-0.25"] * 8],
)
DAYS = (
    "type: dating\nmodel: {head: regressor}\nevaluation: {metrics: [mean_absolute_error]}\n",
    ["text\tday", *["early\t1999-07-01", "late\t2001-02-03"] * 8],
)
TRIPLETS = (
    "type: triplets\nmodel: {head: margin}\nevaluation: {metrics: [recall_at_k, mrr]}\n",
    ["text\tright\twrong", *["one dog\tein Hund\teine Katze", "one cat\teine Katze\tein Hund"] * 8],
)
DENOISING = (
    "type: ul2\nmodel: {architecture: decoder-only, head: language_model}\n",
    ["text", *["a b c d e f g h i j k l m", "m l k j i h g f e d c b a"] * 8],
)
CHOICES = (
    "type: multiple-choice\nmodel: {head: candidates}\nevaluation: {metrics: [exact_match]}\n",
    ["question\tcandidates\tanswer", *["1 + 1\t1 2 12\t2", "7 - 3\t4 5\t4"] * 8],
)
TASKS = {
    "head/margin": TRIPLETS,
    "task_type/triplets": TRIPLETS,
    "head/candidates": CHOICES,
    "task_type/multiple-choice": CHOICES,
    "head/word_regressor": NUMBERS,
    "task_type/token-regression": NUMBERS,
    "column/day": DAYS,
    "task_type/dating": DAYS,
    "head/pointers": QUESTIONS,
    "task_type/span-extraction": QUESTIONS,
    "metric/squad_exact_match": QUESTIONS,
    "metric/squad_f1": QUESTIONS,
    "head/two_heads": BOTH,
    "task_type/label-and-number": BOTH,
    "task_type/ul2": DENOISING,
    "metric/label_accuracy": BOTH,
    "metric/number_error": BOTH,
}
"""Tasks of a kind that is the gallery's own: what they add to `OWN`, and their examples."""

CHECKPOINTED = (
    *("position/shaw", "attention/cross_layer", "attention/retention"),
    *("residual/mixture_of_depths", "residual/stochastic_depth"),
)
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
TRAINED = [
    row
    for row in OUTSIDE
    if row.name not in TASKS or row.name.startswith(("head/", "column/", "task_type/ul2"))
]
"""A task with a head or a column of the gallery trains the task type and the metrics, too."""
trained = pytest.mark.parametrize("row", TRAINED, ids=lambda row: row.name)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Registry]:
    """The registry with the gallery and every plugin beside it, as if they were installed."""
    folders = [GALLERY, ROOT / "examples" / "plugformer-differential"]
    monkeypatch.setenv("PLUGFORMER_PLUGINS", "")
    registry = Registry.discover()
    for folder in folders:
        monkeypatch.syspath_prepend(folder)
        (manifest,) = folder.glob("*/registry.yaml")
        registry = registry.with_local(manifest)
    before = set(sys.modules)
    yield registry
    for name in set(sys.modules) - before:
        if name.startswith(("plugformer_gallery", "plugformer_differential")):
            del sys.modules[name]


def test_every_component_of_the_gallery_has_a_row(installed: Registry) -> None:
    sources = {f"{entry.kind}/{entry.name}": entry.source for entry in installed.entries()}
    assert {row.name: row.source for row in ROWS} == {row.name: sources[row.name] for row in ROWS}
    local = {f"{entry.kind}/{entry.name}" for entry in installed.entries() if entry.distribution == "local"}
    assert {row.name for row in OUTSIDE} == local


def test_a_file_has_the_component(installed: Registry) -> None:
    for row in ROWS:
        component = Subject.of(row.name, installed).component
        *_, package, name = Path(row.file).parts  # the built-in components may be imported from a wheel
        assert (ROOT / row.file).is_file()
        assert Path(inspect.getfile(component)).parts[-2:] == (package, name)


def test_a_file_imports_what_plugins_may() -> None:
    """What is built in could stand in a plugin as it is."""
    assert [each for row in ROWS for each in private_imports(ROOT / row.file)] == []


def private_imports(file: Path) -> Iterator[str]:
    """Yields what a file, or one beside it that it imports, imports of Plugformer and is not public."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("plugformer"):
            continue
        module = str(node.module)
        package = module.partition(".")[0]
        parts = file.relative_to(ROOT).parts  # a clone may be called plugformer, too
        if package in parts:  # its own
            root = ROOT.joinpath(*parts[: parts.index(package)])
            yield from private_imports(root / f"{module.replace('.', '/')}.py")
            continue
        found = importlib.import_module(module) if module in PUBLIC else None
        public = getattr(found, "__all__", dir(found))
        yield from (
            f"{module}.{each.name}" for each in node.names if found is None or each.name not in public
        )


@rows
def test_a_component_keeps_its_contract_as_the_page_says(row: Row, installed: Registry) -> None:
    if row not in OUTSIDE:
        assert row.check == "passed"
        return
    found = unsound(row.name, registry=installed)
    counts = Counter(outcome.partition(":")[0] for outcome in found.values())
    ended = ", ".join(f"{counts[each]} {each}" for each in ("failed", "skipped", "xfailed") if counts[each])
    assert (ended or "passed") == row.check, found


@trained
def test_a_component_trains_and_decodes(
    row: Row,
    installed: Registry,
    short_settings: Callable[..., list[str]],
    recorder: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sample_data: Path,
) -> None:
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    kind, _, name = row.name.partition("/")
    task, settings = (
        "dates",
        short_settings(*SETTINGS.get(row.name, [f"model.{kind}={name}"]), "training.evaluate_every=10"),
    )
    if row.name in ("head/crf", "head/focal"):
        task, settings = "ud-ewt", [f"model.head={name}", *TAGGING]
    if row.name == "architecture/albert":
        task, settings = "ud-ewt", ["model.architecture=albert", "model.layers=3", *SHORT]
    if row.name in TASKS:
        added, examples = TASKS[row.name]
        (tmp_path / "own.yaml").write_text(OWN)
        (tmp_path / "task.yaml").write_text(f"extends: own.yaml\n{added}")
        (tmp_path / "rows.tsv").write_text("\n".join(examples) + "\n")
        task, settings = str(tmp_path / "task.yaml"), SHORT
    trained = train(
        task, overrides=settings, out=tmp_path / "run", registry=installed, callbacks=[recorder]
    ).report
    losses = [update.loss for update in recorder.of("step_ended", "update")]
    assert losses[-1] < losses[0]
    assert trained.self_check is not None
    assert trained.self_check.passed, str(trained.self_check)


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in CHECKPOINTED])
def test_gradient_checkpointing_changes_nothing(
    row: Row, installed: Registry, short_settings: Callable[..., list[str]], sentences: Callable[..., Tokens]
) -> None:
    kind, _, name = row.name.partition("/")
    settings = short_settings(*SETTINGS.get(row.name, [f"model.{kind}={name}"]))
    batch = Batch(sentences("right"), sentences("right", begin=True))
    gradients = []
    for checkpointing in ("false", "true"):
        overrides = [*settings, f"training.gradient_checkpointing={checkpointing}"]
        torch.manual_seed(0)  # of dropout
        model = build(
            Experiment.of(resolve("dates", overrides, installed).task, installed).spec, Sizes(12, 12)
        )
        model(batch).total.backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    torch.testing.assert_close(gradients[0], gradients[1])
