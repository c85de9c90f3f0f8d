"""What tests of every package share: the registry, tiny tasks and models, small data, registered names."""

import gc
import gzip
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest

# For tensors as tiny as these, threads cost several times what they save: also in processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

gc.disable()  # while modules are imported, which takes a quarter longer otherwise: `pytest_collection_finish`

import torch
from jaxtyping import config, install_import_hook
from tests.checking import checked
from tests.forking import one_fork_server

TESTS = Path(__file__).parent


def annotated_modules() -> Iterator[str]:
    """Yields the names of the modules whose functions state shapes."""
    for package in ("plugformer", *(each.name for each in TESTS.parent.glob("plugins/plugformer_*"))):
        folder = Path(find_spec(package).origin).parent
        for file in folder.rglob("*.py"):
            if "from jaxtyping import" in file.read_text(encoding="utf-8"):
                yield ".".join((package, *file.relative_to(folder).with_suffix("").parts))


install_import_hook(list(annotated_modules()), f"{checked.__module__}.{checked.__name__}")  # from here on


from plugformer.configuration import resolve
from plugformer.configuration.resolving import check_components
from plugformer.configuration.task import Task
from plugformer.evaluation.report import Report
from plugformer.experiment import Experiment
from plugformer.hooks import hookimpl
from plugformer.interfaces import Model, Ragged, Tokens
from plugformer.model import Sizes, build
from plugformer.registry import Kind, Registry
from plugformer.runs import self_check
from plugformer.training.train import train
from plugformer_blocks import pad

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def imports_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test imports from a folder of tests, an example or a benchmark is not there for the next."""
    path, before = [*sys.path], set(sys.modules)
    yield
    sys.path[:] = path
    root = TESTS.parent
    passing = (str(tmp_path_factory.getbasetemp()), str(root / "benchmarks"), str(root / "examples"))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(passing):
            del sys.modules[name]


TINY = (
    *("data.size=60", "model.width=16", "model.heads=2", "model.layers=1", "model.ffn_width=32"),
    *("model.dropout=0.0", "model.max_length=40", "training.schedule=constant"),
)
SHORT = (
    *("training.steps=10", "training.batch_size=8", "training.log_every=1", "training.evaluate_every=4"),
    *("training.monitor=loss", "model.dropout=0.2", "decoding.max_length=4", "evaluation.samples=2"),
)
"""A training of ten updates, seven to an epoch, with evaluations after 4, 8 and 10."""

VOCABULARY = 12

UNCHECKED = {
    *("ablation", "benchmarks", "cli", "configuration", "docs", "export", "fuzzing", "inspection", "plugins"),
    *("hooks", "python", "registry", "runs", "serving", "sharding", "sharing", "streaming", "tasks"),
    *("testing", "tracking", "training", "transformers"),
}
"""Folders whose tests call, as long tests do, what those of others call with its shapes checked.

Contract tests find wrong shapes by themselves, and the checks double the time of a training.
"""


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> Iterator[None]:
    """The one that processes of these tests are forked from, started when the first one is."""
    with one_fork_server():
        yield


@pytest.fixture(scope="session", autouse=True)
def short_self_checks() -> Iterator[None]:
    """Trainings compare three examples with themselves at their end: more is most of a tiny one's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(self_check, "EXAMPLES", 3)
        yield


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of their own, so that what is kept there comes from these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PLUGFORMER_CACHE", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def files_left_to_the_system() -> Iterator[None]:
    """No test takes the power away, and to wait for the disk is a third of a tiny training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def pytest_collection_finish() -> None:
    """Spares the garbage collector what has been imported, which it would go through again and again."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Has calls check their shapes where tests compute; before fixtures, which may train."""
    long = item.get_closest_marker("long") is not None
    config.update("jaxtyping_disable", long or item.path.relative_to(TESTS).parts[0] in UNCHECKED)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Lets long tests begin first, so that no process is left with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that takes `any_attention` for every registered attention, and likewise for other kinds.

    One that takes `any_parts` is given settings of a part of each kind, so that every part comes up.
    """
    for name in [name for name in metafunc.fixturenames if name.startswith("any_")]:
        if name == "any_parts":
            metafunc.parametrize(name, list(combined_parts()), ids=",".join)
        else:
            metafunc.parametrize(name, registered(Kind(name.removeprefix("any_"))))


@cache
def registered(kind: Kind) -> list[str]:
    """Returns the names of a kind's components."""
    return [entry.name for entry in Registry.discover().entries(kind)]


def combined_parts() -> Iterator[list[str]]:
    """Yields settings with a part of each kind, as few as show every part."""
    model = (Kind.ATTENTION, Kind.POSITION, Kind.FEED_FORWARD, Kind.NORM, Kind.RESIDUAL, Kind.INITIALIZATION)
    places = [f"model.{kind}" for kind in model] + ["training.schedule", "training.optimizer"]
    names = [registered(kind) for kind in (*model, Kind.SCHEDULE, Kind.OPTIMIZER)]
    for number in range(max(map(len, names))):
        chosen = [of_kind[number % len(of_kind)] for of_kind in names]
        yield [f"{place}={name}" for place, name in zip(places, chosen, strict=True)]


@pytest.fixture(scope="session")
def registry() -> Registry:
    """Everything installed."""
    return Registry.discover()


@pytest.fixture(scope="session")
def tiny_task(registry: Registry) -> Callable[..., Task]:
    """Makes a task like `dates`, but tiny and without dropout, with overrides as after --set."""
    return cache(
        lambda *overrides, task="dates": check_components(resolve(task, tiny(*overrides), registry)).task
    )


def tiny(*overrides: str) -> list[str]:
    """Returns the settings of tiny tasks, with others in place of some."""
    return list({override.partition("=")[0]: override for override in (*TINY, *overrides)}.values())


@pytest.fixture(scope="session")
def tiny_model(tiny_task: Callable[..., Task], registry: Registry) -> Callable[..., Model]:
    """Makes the model of a tiny task, for twelve tokens on either side."""

    def make(*overrides: str, task: str = "dates") -> Model:
        spec = Experiment.of(tiny_task(*overrides, task=task), registry).spec
        return build(spec, Sizes(VOCABULARY, VOCABULARY))

    return make


@pytest.fixture(scope="session")
def sentences() -> Callable[..., Tokens]:
    """Makes a batch of three sentences of different length, padded, or of equal length."""

    def make(padding: str = "right", *, begin: bool = False, shift: int = 0) -> Tokens:
        lengths = enumerate([4, 4, 4] if padding == "none" else [5, 2, 4])
        rows = [[4 + (row * 3 + token * 5 + shift) % 8 for token in range(n)] for row, n in lengths]
        return pad(Ragged.of(rows), begin=begin)

    return make


@pytest.fixture(scope="session")
def train_tiny(registry: Registry) -> Callable[..., Report]:
    """Trains a tiny `dates` in a run directory, with overrides as after --set."""

    def run(out: Path, *overrides: str, **watching: Any) -> Report:
        given = {"overrides": tiny(*SHORT, *overrides), "notify": str, "registry": registry, **watching}
        return train("dates", out=out, **given).report

    return run


@pytest.fixture(scope="session")
def short_settings() -> Callable[..., list[str]]:
    """Returns the settings of `train_tiny`, for a command."""
    return lambda *overrides: tiny(*SHORT, *overrides)


class Recorder:
    """Keeps every hook call: its name and arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    @property
    def names(self) -> list[str]:
        """Names of the hooks that were called, in order."""
        return [name for name, _ in self.calls]

    def of(self, hook: str, argument: str) -> list[Any]:
        """Returns what a hook was given as one of its arguments, at each call."""
        return [arguments[argument] for name, arguments in self.calls if name == hook]

    @hookimpl
    def run_started(self, run):
        self.calls.append(("run_started", {"run": run}))

    @hookimpl
    def samples_shown(self, run, samples):
        self.calls.append(("samples_shown", {"run": run, "samples": samples}))

    @hookimpl
    def step_ended(self, run, update):
        self.calls.append(("step_ended", {"run": run, "update": update}))

    @hookimpl
    def evaluation_ended(self, run, evaluation):
        self.calls.append(("evaluation_ended", {"run": run, "evaluation": evaluation}))

    @hookimpl
    def checkpoint_saved(self, run, step, path):
        self.calls.append(("checkpoint_saved", {"run": run, "step": step, "path": path}))

    @hookimpl
    def run_ended(self, run):
        self.calls.append(("run_ended", {"run": run}))

    @hookimpl
    def run_evaluated(self, run):
        self.calls.append(("run_evaluated", {"run": run}))

    @hookimpl
    def run_failed(self, run, error):
        self.calls.append(("run_failed", {"run": run, "error": error}))


@pytest.fixture
def recorder() -> Recorder:
    """A callback that keeps every hook call."""
    return Recorder()


@dataclass(frozen=True)
class Trained:
    """A short training that went through: where, what was observed and said, and how it ended."""

    directory: Path
    recorder: Recorder
    notices: list[str]
    report: Report


@pytest.fixture(scope="session")
def trained(train_tiny: Callable[..., Report], tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A finished run, to be looked at and not to be changed."""
    directory, seen, notices = tmp_path_factory.mktemp("runs") / "run", Recorder(), []
    report = train_tiny(directory, "training.keep_checkpoints=2", callbacks=[seen], notify=notices.append)
    return Trained(directory, seen, notices, report)


@pytest.fixture
def run_copy(trained: Trained, tmp_path: Path) -> Path:
    """The files of that run, to be changed."""
    return Path(shutil.copytree(trained.directory, tmp_path / "copy"))


COLORS = [("red", "rot", "rouge", "红"), ("blue", "blau", "bleu", "蓝"), ("green", "grün", "vert", "绿")]
THINGS = [("house", "Haus", "maison", "房"), ("tree", "Baum", "arbre", "树"), ("car", "Auto", "auto", "车")]


@pytest.fixture(scope="session")
def sample_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files in place of all that bundled tasks read from PLUGFORMER_DATA."""
    folder = tmp_path_factory.mktemp("data")
    sentences = [
        (
            f"I see {number} {color[0]} {thing[0]}s.",
            f"Ich sehe {number} {thing[1]} in {color[1]}.",
            f"Je vois {number} {thing[2]} en {color[2]}.",
            f"我看见{number}{color[3]}{thing[3]}",
        )
        for number, color, thing in product(range(2, 7), COLORS, THINGS)
    ]
    english, german, french, chinese = zip(*sentences, strict=True)
    for name in ("train", "val", "test_2016_flickr", "test_2017_flickr"):
        _write(folder / f"multi30k/{name}.en", english)
        _write(folder / f"multi30k/{name}.de", german)
    _write(folder / "fra_eng/fra.txt.gz", [f"{en}\t{fr}" for en, fr in zip(english, french, strict=True)])
    _write(folder / "cmn_eng/cmn.txt", [f"{en}\t{zh}\tby" for en, zh in zip(english, chinese, strict=True)])
    for name in ("train", "tang", "test"):
        _write(folder / f"couplets/{name}/in.txt", [f"{' '.join(line)} " for line in chinese])
        _write(folder / f"couplets/{name}/out.txt", [f"{' '.join(reversed(line))} " for line in chinese])
    rows = [f'"{1 + number % 4}","Title {number % 4}","{text}"' for number, text in enumerate(english)]
    for name in ("part.csv.gz", "head.csv", "desc_only.csv", "desc_only_lower.csv"):
        _write(folder / f"ag_news/train_{name}", rows)
    _write(folder / "ag_news/test.csv", rows)
    for name in ("movies", "newsgroups", "hedges", "tweets", "reuters"):
        for part in ("", "_more"):
            rows = [f"{text},{text[6]}" for text in english]
            _write(folder / f"texts/{name}{part}.csv", ["text,label", *rows])
    pairs = [f"{en},{fr}" for en, fr in zip(english, french, strict=True)]
    for name in ("django_fr", "wagtail_it", "wagtail_ru"):
        _write(folder / f"pairs/{name}.csv", ["english,translation", *pairs])
    _write(folder / "tinyshakespeare/input.txt.gz", english)
    tags = ("PRON", "VERB", "NUM", "NOUN", "NOUN")
    words = enumerate(" ".join(english).split())
    tagged = [f"{1 + n % 5}\t{word}\t_\t{tags[n % 5]}" + "\n" * (n % 5 == 4) for n, word in words]
    for name in ("train", "dev", "test"):
        _write(folder / f"ud_ewt/{name}.conllu.gz", tagged)
    related = ["sentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
    for n, (one, other) in enumerate(zip(english, reversed(english), strict=True)):
        related.append(f"{one}\t{other}\t{1 + n % 5}\t{'NEUTRAL' if n % 2 else 'ENTAILMENT'}")
    for name in ("train", "trial", "test_annotated"):
        _write(folder / f"sick/SICK_{name}.txt", related)
    return folder


def _write(file: Path, lines: Sequence[str]) -> None:
    content = ("\n".join(lines) + "\n").encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
