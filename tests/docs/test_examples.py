"""Components in examples/ compute what they say; studies and task files there are sound."""

import re
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest
import torch
import yaml
from torch.nn.functional import cosine_similarity

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.experiment import Experiment
from plugformer.interfaces import (
    CAUSAL,
    Attention,
    Column,
    Context,
    FeedForward,
    ModelContext,
    PositionalEncoding,
    Positions,
    Tokens,
)
from plugformer.interfaces.context import State
from plugformer.model import Cache, Sizes
from plugformer.model.build import build
from plugformer.registry import Registry
from plugformer.registry.discovery import discover_local
from plugformer.training.train import train
from plugformer.validation import validate
from plugformer_ablation.design.arms import resolve_arms
from plugformer_ablation.design.reading import read_study

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODEL = ModelContext(width=12, heads=3, ffn_width=20)
REAL = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Registry]:
    """Returns the registry with the manifest of an example."""
    monkeypatch.setenv("PLUGFORMER_PLUGINS", "")
    monkeypatch.delenv("PLUGFORMER_REGISTRY", raising=False)
    monkeypatch.syspath_prepend(EXAMPLES)  # restores the import path afterwards
    return lambda name: Registry.discover(EXAMPLES / name / "registry.yaml")


@pytest.fixture
def attention(example: Callable[[str], Registry]) -> Attention:
    torch.manual_seed(0)
    built: Attention = example("qk_norm").create("attention", "qk_norm", MODEL, scale=4.0)
    return built


def whole(real: torch.Tensor) -> Context:
    at = Positions.of(real.shape[1], PositionalEncoding(), real)
    return Context(at, at, view=CAUSAL)


def test_squared_relu_is_its_formula(example: Callable[[str], Registry]) -> None:
    network: FeedForward = example("squared_relu").create("feed_forward", "squared_relu", MODEL, bias=False)
    x = torch.randn(2, 5, 12)
    up, down = (parameter.detach() for parameter in network.parameters())
    expected = (x @ up.T).clamp(min=0) ** 2 @ down.T
    torch.testing.assert_close(network(x, whole(REAL)), expected)


def test_query_key_norm_is_its_formula(attention: Attention) -> None:
    x = torch.randn(2, 5, 12)
    got = attention(x, whole(REAL))
    query, key, value = (
        attention.get_submodule(name)(x).view(2, 5, 3, 4).transpose(1, 2)
        for name in ("query", "key", "value")
    )
    scores = 4.0 * cosine_similarity(query[:, :, :, None], key[:, :, None], dim=-1)
    seen = torch.ones(5, 5).tril().bool() & REAL[:, None, None]
    read = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value
    expected = attention.get_submodule("output")(read.transpose(1, 2).flatten(2))
    torch.testing.assert_close(got[REAL], expected[REAL])


def test_normalized_queries_and_keys_are_their_formula(example: Callable[[str], Registry]) -> None:
    attention: Attention = example("speedruns").create("attention", "normalized_query_key", MODEL, bias=False)
    x = torch.randn(2, 5, 12)
    query, key, value = (
        attention.get_submodule(name)(x).view(2, 5, 3, 4).transpose(1, 2)
        for name in ("query", "key", "value")
    )
    # heads of width 4 with a root mean square of 1 have the length 2: scores are twice the cosine
    scores = 2.0 * cosine_similarity(query[:, :, :, None], key[:, :, None], dim=-1)
    seen = torch.ones(5, 5).tril().bool() & REAL[:, None, None]
    read = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value
    expected = attention.get_submodule("output")(read.transpose(1, 2).flatten(2))
    torch.testing.assert_close(attention(x, whole(REAL))[REAL], expected[REAL])


def test_zero_outputs_are_zeros_in_the_last_maps_alone(example: Callable[[str], Registry]) -> None:
    registry = example("speedruns")

    def initial(scheme: str) -> dict[str, torch.Tensor]:
        resolved = resolve(
            "dates", ["model.width=16", "model.heads=2", f"model.initialization={scheme}"], registry
        )
        spec = Experiment.from_resolved(resolved).spec
        return dict(build(spec, Sizes(12, 12)).named_parameters())

    default = initial("default")
    for name, values in initial("zero_outputs").items():
        last = "layers" in name and name.endswith(("down.weight", "output.weight"))
        assert torch.equal(values, torch.zeros_like(values) if last else default[name]), name


def test_cautious_weight_decay_is_its_formula(example: Callable[[str], Registry]) -> None:
    settings = {"lr": 0.1, "weight_decay": 0.5, "betas": (0.9, 0.99)}
    weight, vector = torch.nn.Parameter(torch.randn(4, 4)), torch.nn.Parameter(torch.randn(4))
    optimizer = example("speedruns").create("optimizer", "cautious_adamw", **settings)
    built = optimizer.build([("weight", weight), ("vector", vector)])
    plain = [weight.detach().clone(), vector.detach().clone()]
    moments = [(torch.zeros_like(each), torch.zeros_like(each)) for each in plain]
    for step in (1, 2, 3):
        for number, values in enumerate((weight, vector)):
            values.grad = torch.randn_like(values)
            first, second = moments[number]
            first.lerp_(values.grad, 0.1)
            second.lerp_(values.grad**2, 0.01)
            update = first / (1 - 0.9**step) / ((second / (1 - 0.99**step)).sqrt() + optimizer.epsilon)
            decay = 0.5 * (update * plain[number] >= 0) * plain[number] if values is weight else 0.0
            plain[number] -= 0.1 * (update + decay)
        built.step()
    torch.testing.assert_close([weight.detach(), vector.detach()], plain)


def test_query_key_norm_computes_pieces_as_it_computes_the_whole(attention: Attention) -> None:
    x = torch.randn(2, 5, 12)
    cache, encoding, pieces = Cache([{"attention": State()}]), PositionalEncoding(), []
    for piece in (slice(0, 2), slice(2, 5)):
        tokens = Tokens(torch.zeros_like(REAL[:, piece]).long(), REAL[:, piece])
        query, key, slots = cache.extend(tokens, CAUSAL, encoding)
        state = cache.layers[0]["attention"]
        pieces.append(attention(x[:, piece], Context(query, key, view=CAUSAL, state=state, slots=slots)))
    torch.testing.assert_close(torch.cat(pieces, dim=1)[REAL], attention(x, whole(REAL))[REAL])


@pytest.fixture
def data(sample_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))


AFTER_ANOTHER_RUN = EXAMPLES / "pretraining/study.yaml"
REFERENCE = EXAMPLES / "reference/study.yaml"
STUDIES = {
    file
    for file in EXAMPLES.glob("*/*.yaml")
    if re.search(r"^study: ", file.read_text(encoding="utf-8"), re.MULTILINE)
}


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    "file",
    sorted(STUDIES - {AFTER_ANOTHER_RUN, REFERENCE}),
    ids=lambda file: f"{file.parent.name}/{file.stem}",
)
def test_studies_are_sound(file: Path, registry: Registry) -> None:
    assert len(resolve_arms(read_study(str(file)), registry)) > 1


@pytest.mark.usefixtures("data")
def test_the_reference_study_is_sound(tmp_path: Path, registry: Registry) -> None:
    """Its arms have the names of parts; those of bridges need packages that are not installed here."""
    study = yaml.safe_load(REFERENCE.read_text(encoding="utf-8"))
    manifests = [(REFERENCE.parent / file).resolve() for file in study["registry"]]
    parts = {
        manifest: {f"{entry.kind}/{entry.name}" for entry in discover_local(manifest).entries}
        for manifest in manifests
    }
    assert {*study["arms"]} - {"baseline"} <= set().union(*parts.values())
    bridges = {part for manifest in parts if "bridges" in manifest.parts for part in parts[manifest]}
    arms = {name: settings for name, settings in study["arms"].items() if name not in bridges}
    whole = {**study, "task": str(REFERENCE.with_name("task.yaml")), "arms": arms}
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump({**whole, "registry": list(map(str, manifests))}))
    assert len(resolve_arms(read_study(str(file)), registry)) > 1


@pytest.mark.usefixtures("data")
def test_a_study_begins_with_a_pretrained_encoder(tmp_path: Path, registry: Registry) -> None:
    folder = tmp_path / "examples/pretraining"
    copytree(AFTER_ANOTHER_RUN.parent, folder)
    small = ["training.steps=1", "training.epochs=null", "model.width=16", "evaluation.limit=2"]
    train(str(folder / "captions.yaml"), overrides=small, out=tmp_path / "runs/captions", registry=registry)
    with pytest.raises(ConfigurationError, match="does not fit"):
        resolve_arms(read_study(str(folder / AFTER_ANOTHER_RUN.name)), registry)
    study = read_study(str(folder / AFTER_ANOTHER_RUN.name), settings=["model.width=16"])
    assert len(resolve_arms(study, registry)) == 2


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/task.yaml")), ids=lambda file: file.parent.name)
def test_tasks_are_sound(file: Path, registry: Registry) -> None:
    validate(resolve(str(file), registry=registry))


def added_reversed(first: str, second: str) -> str:
    assert len(first) == len(second)
    return f"{int(first[::-1]) + int(second[::-1]):0{len(first) + 1}}"[::-1]


@pytest.mark.parametrize(
    ("operation", "right"),
    [
        ("copy", lambda source: source),
        ("reverse", lambda source: source[::-1]),
        ("add", lambda source: str(sum(map(int, source.split("+"))))),
        ("add_reversed", lambda source: added_reversed(*source.split("+"))),
    ],
)
def test_strings_are_longer_in_one_split_alone(
    operation: str, right: Callable[[str], str], example: Callable[[str], Registry]
) -> None:
    options = {"operation": operation, "longest": 4, "much_longer": 6, "size": 50, "held_out": 50}
    data = example("findings").create("data", "lengths", **options)
    splits = data.load([Column("source", "text", "input"), Column("target", "text", "output")])
    assert all(row["target"] == right(row["source"]) for split in splits.values() for row in split)
    lengths = {
        name: {max(map(len, row["source"].split("+"))) for row in split} for name, split in splits.items()
    }
    short = {1, 2, 3, 4}
    assert lengths == {"train": short, "validation": short, "test": short, "test_longer": {5, 6}}
