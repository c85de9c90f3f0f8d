"""Exports to Transformers with code of their own, made of the sources of a run's parts."""

import json
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt as root

import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu as smooth

from plugformer.interfaces import Context, FeedForward, ModelContext
from plugformer.registry import Kind
from plugformer_export.engine import UnsupportedExport
from plugformer_export.transformers import Transformers
from plugformer_export.transformers.transcription import Transcription, Untranscribable
from plugformer_export.verification import verified

transformers = pytest.importorskip("transformers")


class Cubed(FeedForward):
    """A network that no class of Transformers has."""

    def __init__(self, model: ModelContext, *, power: int = 3) -> None:
        super().__init__()
        self.maps = nn.ModuleList(
            [nn.Linear(model.width, model.ffn_width), nn.Linear(model.ffn_width, model.width)]
        )
        self.power = power

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        up, down = self.maps
        return down(scaled(up(x)) ** self.power)


def scaled(x: Tensor) -> Tensor:
    return x * HALF


HALF = 0.5


class Looking(Cubed):
    """A network that looks at the context."""

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return x if context.real is None else super().forward(x, context)


ALONE = (
    "model.architecture=decoder-only",
    "model.max_length=80",
    "model.embeddings={shared: false, tied: true, scaled: true}",
)
STRANGE = 'From C:\\Users, "quoted", and """; 1 / 0; """'
MIXTURES = {
    "rope, grouped, swiglu, rms": (
        "dates",
        (
            *(
                *ALONE,
                "model.position=rope",
                "model.heads=4",
                "model.attention=gqa",
                "model.feed_forward=swiglu",
            ),
            *("model.norm=rms_norm", "model.embeddings.scaled=false", "model.attention_dropout=0.5"),
        ),
    ),
    "its own network, post-norm": (
        "dates",
        (
            *ALONE,
            "model.feed_forward={name: cubed, power: 2}",
            "model.residual=post",
            "model.embeddings.tied=false",
            f"description='{STRANGE}'",
        ),
    ),
    "parallel, sinusoidal": (
        "dates",
        (*ALONE, "model.residual=parallel", "model.position=sinusoidal"),
    ),
    "class": (
        "ag-news",
        ("model.residual=pre", "model.feed_forward=cubed", "model.head={name: classifier, pooling: max}"),
    ),
    "tags": ("ud-ewt", ("model.feed_forward=geglu",)),
    "class of two texts": ("sick-entailment", ("model.head={name: classifier, pooling: last}",)),
}


@pytest.fixture
def parts(registry):
    return registry.with_components({Kind.FEED_FORWARD: {"cubed": Cubed, "looking": Looking}})


@pytest.fixture
def made(exportable, parts, tmp_path, sample_data, monkeypatch):
    monkeypatch.setenv("PLUGFORMER_DATA", str(sample_data))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    return lambda task, overrides: exportable(*overrides, task=task, registry=parts)


@pytest.mark.parametrize("mixture", MIXTURES)
def test_it_computes_what_the_run_does(made, tmp_path, mixture):
    found = verified(made(*MIXTURES[mixture]), Transformers(code=True), tmp_path / "out", examples=9)
    assert found.difference < 1e-4
    assert found.equal == found.examples > 4
    code = "".join(path.read_text() for path in (tmp_path / "out").glob("*.py"))
    assert "quoted" not in code  # what a run says of itself would be executed
    assert "import plugformer" not in code.replace("configuration_plugformer", "")
    assert code.count("class Cubed") == ("its own" in mixture or mixture == "class")


PROGRAM = """
import json, sys
from transformers import AutoModel, pipeline
folder = sys.argv[1]
AutoModel.from_pretrained(folder, trust_remote_code=True)
generator = pipeline("text-generation", model=folder, trust_remote_code=True)
print(json.dumps([row[0]["generated_text"] for row in generator(sys.argv[2:], return_full_text=False)]))
"""


def test_a_pipeline_generates_without_plugformer(made, tmp_path):
    trained = made(*MIXTURES["its own network, post-norm"])
    verified(trained, Transformers(code=True), tmp_path / "out", examples=9)
    texts = ["March 5, 1996", "7/4/76"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "out"), *texts],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == [answer.output for answer in trained.predict(texts)]


@pytest.fixture
def read(made, tmp_path):
    """Exports a mixture and reads it as transformers does, with its own attention in three steps."""

    def read(mixture, auto):
        target, out = Transformers(code=True), tmp_path / "out"
        trained = made(*MIXTURES[mixture])
        assert not target.problems(trained)
        out.mkdir()
        target.write(trained, out)
        return auto.from_pretrained(out, trust_remote_code=True, attn_implementation="eager")

    return read


def test_it_returns_and_trains_as_other_models_of_transformers_do(read):
    model, ids = (
        read("rope, grouped, swiglu, rms", transformers.AutoModelForCausalLM),
        torch.arange(4, 12).view(2, 4),
    )
    plain = model(ids, labels=ids, output_hidden_states=True, output_attentions=True)
    assert len(plain.hidden_states) == len(plain.attentions) + 1 == model.config.num_hidden_layers + 1
    assert torch.equal(model.lm_head(plain.hidden_states[-1]), plain.logits)
    assert torch.equal(model(ids, logits_to_keep=torch.tensor([0, 2])).logits, plain.logits[:, [0, 2]])
    assert isinstance(model(ids, return_dict=False), tuple)
    assert (plain.attentions[0][..., -1, :] > 0).all()
    steps = [model(row[None], labels=row[None], num_items_in_batch=6).loss for row in ids]
    torch.testing.assert_close(sum(steps), plain.loss)

    model.train()
    dropped = model(ids, output_attentions=True).attentions[0]
    assert (dropped[..., -1, :] == 0).any()
    gradients = []
    for change in (lambda: None, model.activation_checkpointing_enable):
        change()
        torch.manual_seed(1)
        model.zero_grad()
        model(ids, labels=ids).loss.backward()
        gradients.append(model.model.layers[0].attention.query.weight.grad.clone())
    assert torch.equal(*gradients)


def test_a_classifier_reads_vectors_and_texts_padded_on_the_left(read):
    model, ids = (
        read("class of two texts", transformers.AutoModelForSequenceClassification),
        torch.arange(4, 12)[None],
    )
    plain = model(ids, output_hidden_states=True)
    assert len(plain.hidden_states) == model.config.num_hidden_layers + 1
    torch.testing.assert_close(model(inputs_embeds=model.model.embedding(ids)).logits, plain.logits)
    pad = torch.zeros(1, 3, dtype=torch.long)
    ids, mask = torch.cat([pad, ids], dim=1), torch.cat([pad, torch.ones_like(ids)], dim=1)
    padded = model(ids, mask, position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0))
    torch.testing.assert_close(padded.logits, plain.logits)
    assert model.accepts_loss_kwargs is False


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (
            ("model.feed_forward=looking",),
            "model.feed_forward: feed_forward 'looking'.*its forward reads its context",
        ),
        (("model.attention=mla",), "model.attention: attention 'mla'"),
        (("model.position=alibi",), "model.position: position 'alibi'"),
        (
            ("model.layers=2", "model.decoder.per_layer={0: {feed_forward: relu}}"),
            "model.feed_forward: layers that differ",
        ),
    ],
)
def test_what_cannot_be_written_down_is_named(made, tmp_path, overrides, named):
    with pytest.raises(UnsupportedExport, match=named):
        verified(made("dates", (*ALONE, *overrides)), Transformers(code=True), tmp_path / "out", examples=9)
    assert not (tmp_path / "out").exists()


def test_the_source_of_a_class_without_a_file_is_refused():
    made = type("Made", (Cubed,), {})
    made.__module__ = "builtins"
    with pytest.raises(Untranscribable, match="source of Made"):
        Transcription().add(made, {})


SIZES = ModelContext(width=4, heads=2, ffn_width=8)


class Base(FeedForward):
    """Two maps of `model.width`.

    Args:
        model: Sizes of the model.

    Raises:
        ConfigurationError: Never.
    """

    def __init__(self, sizes: ModelContext) -> None:
        super().__init__()
        self.up = nn.Linear(sizes.width, sizes.width)


class Renaming(Base):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return smooth(self.up(x)) * root(2.0)


class Shadowing(Base):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        model = self.up(x)
        return model.relu() * HALF

    def other(self) -> int:
        HALF = self.up.in_features  # noqa: N806 (as the constant that the other method reads)
        return HALF * 2


class Sized:
    size: int


class Recursive(Base):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.up(x) if even(2) and Sized else x


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


@pytest.mark.parametrize("part", [Renaming, Shadowing, Recursive])
def test_sources_mean_what_they_mean_in_their_modules(part):
    written = Transcription()
    written.execute(written.add(part, {}), SIZES)
    base = written.sources["Base"]
    assert "config.hidden_size`" in base
    assert "    config: Sizes" in base
    assert "    ValueError: Never" in base


INF = float("inf")
MODE = StrEnum("Mode", ["a"]).a


class Infinite(Base):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.up(x).clamp(max=INF)


class Chosen(Base):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.up(x) if MODE == "a" else x


@dataclass
class Shape:
    size: int


class Shaped(Base):
    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.up(x) * Shape(2).size


class Layer(Base):
    """Its name is that of the template's layers."""


@pytest.mark.parametrize(
    ("part", "options", "named"),
    [
        (Infinite, {}, "it reads INF of .*: inf"),
        (Chosen, {}, "it reads MODE of .*: <Mode.a: 'a'>"),
        (Shaped, {}, "it fails with TypeError: Shape"),
        (Layer, {}, "something else is called Layer"),
        (Renaming, {"limit": INF}, "its limit is inf"),
    ],
)
def test_sources_that_cannot_be_executed_are_refused(part, options, named):
    written = Transcription(["Layer"])
    with pytest.raises(Untranscribable, match=named):
        written.execute(written.add(part, options), SIZES)
