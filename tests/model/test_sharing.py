"""States that layers share, and layers that stand in several places of a stack."""

import pytest
import torch

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.experiment import Experiment
from plugformer.interfaces import Batch, evaluating
from plugformer.model import Sizes, build
from plugformer.runs.store import own_tensors, restore
from plugformer.validation import validate
from plugformer_blocks import split_heads
from plugformer_inspection import AttentionLocation, observing

PARTS = '''
from torch import nn

from plugformer_blocks import softmax_attention, split_heads
from plugformer_plugins.architecture.encoder_only import EncoderModel, EncoderOnly
from plugformer_plugins.attention.grouped import MultiHeadAttention


class Sharing(MultiHeadAttention):
    """Odd layers read keys and values of the layer below."""

    def __init__(self, model, *, reads: int = -1, scale: float = 1.0):
        super().__init__(model)
        self.scale = scale
        if model.place.layer % 2:
            self.reads_layer = model.place.layer + reads
            del self.key, self.value

    def forward(self, x, context):
        if self.reads_layer is None:
            return super().forward(x, context)
        query = context.rotate(split_heads(self.query(x), self.width))
        read = softmax_attention(query, *context.shared, context)
        return self.output(read.transpose(1, 2).flatten(-2))


class Again(EncoderOnly):
    """The first layer in all places."""

    def build(self, builder, sizes, level):
        embedding = builder.embedding(sizes.source, tied=False)
        encoder = builder.encoder(embedding)
        encoder.layers = nn.ModuleList(encoder.layers[0] for _ in encoder.layers)
        return EncoderModel(encoder, builder.head(sizes.outputs, embedding), level)


class Broken(Again):
    def build(self, builder, sizes, level):
        return super().build(builder, sizes.missing, level)
'''
MANIFEST = """\
components:
  architecture:
    again: {class: "parts_of_sharing_tests:Again"}
    broken: {class: "parts_of_sharing_tests:Broken"}
  attention: {sharing: {class: "parts_of_sharing_tests:Sharing"}}
"""
TINY = ["model.width=8", "model.heads=2", "model.ffn_width=8", "model.dropout=0.2"]
SHARING = [*TINY, "model.layers=4", "model.attention=sharing"]
CLASSES = """\
type: classification
data: {name: table, files: {train: examples.tsv}}
tokenizer: characters
model: {architecture: again, embeddings: {shared: false}, head: classifier, layers: 3}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parts")


@pytest.fixture(scope="module")
def parts(registry, folder):
    (folder / "parts_of_sharing_tests.py").write_text(PARTS)
    (folder / "registry.yaml").write_text(MANIFEST)
    (folder / "task.yaml").write_text(CLASSES)
    (folder / "examples.tsv").write_text("text\tlabel\none\ta\ntwo\tb\n")
    return registry.with_local(folder / "registry.yaml")


@pytest.fixture
def batch(sentences):
    return Batch(sentences("right"), sentences("right", begin=True))


@pytest.fixture
def make(parts):
    def make(*overrides):
        return build(
            Experiment.of(validate(resolve("dates", [*SHARING, *overrides], parts)).task, parts).spec,
            Sizes(12, 12),
        )

    return make


@pytest.mark.parametrize("name", ["attention", "cross_attention"])
def test_a_layer_reads_keys_and_values_of_its_owner(make, batch, name):
    model, kept, read = make(), [], []
    owner, reader = (getattr(layer, name) for layer in model.decoder.layers[:2])

    def expect(module, arguments, output):
        x, context = arguments
        memory = context.memory if context.cross else x
        heads = [split_heads(part(memory), owner.width) for part in (owner.key, owner.value)]
        kept.extend([context.key.rotate(heads[0]), heads[1]])

    owner.register_forward_hook(expect)
    reader.register_forward_pre_hook(lambda module, arguments: read.extend(arguments[1].shared))
    model(batch)
    torch.testing.assert_close(read, kept)
    assert len(read) == 2


@pytest.mark.parametrize("position", ["t5", "rope"])
def test_gradient_checkpointing_changes_nothing(make, batch, position):
    found = []
    for checkpointing in ("false", "true"):
        model = make(f"training.gradient_checkpointing={checkpointing}", f"model.position={position}").train()
        for _ in range(2):  # nothing is left of the first pass
            model.zero_grad()
            torch.manual_seed(3)  # of dropout
            loss = model(batch).total
            loss.backward()
        found.append({name: parameter.grad for name, parameter in model.named_parameters()})
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(found[1][name], gradient) for name, gradient in found[0].items())


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("model.attention.reads=0", r"layer \d"),
        ("model.attention.reads=-2", "layer -1"),
        ("model.encoder.per_layer.0.attention=mha", "layer 0 of the encoder"),
        ("model.encoder.per_layer.2.attention={name: sharing, scale: 2.0}", "layer 2 of the encoder"),
    ],
)
def test_a_state_that_is_not_there_is_refused(parts, override, read):
    resolved = resolve("dates", [*SHARING, override], parts)
    with pytest.raises(ConfigurationError, match=rf"layer \d of the encoder reads the state of {read}"):
        validate(resolved)
    with pytest.raises(ConfigurationError, match=r"layer \d of the encoder reads the state of"):
        build(Experiment.of(resolved.task, parts).spec, Sizes(12, 12))


def repeated(parts, folder, *overrides):
    """Returns a task whose three layers are one."""
    return validate(resolve(str(folder / "task.yaml"), [*TINY, *overrides], parts)).task


def test_a_layer_may_stand_in_all_places(parts, folder, sentences):
    """As three layers with the same values; it is saved, and counted, once."""
    model = build(Experiment.of(repeated(parts, folder), parts).spec, Sizes(12, 4)).eval()
    apart = build(
        Experiment.of(repeated(parts, folder, "model.architecture=encoder-only"), parts).spec, Sizes(12, 4)
    ).eval()
    for layer in apart.encoder.layers:
        layer.load_state_dict(model.encoder.layers[0].state_dict())
    batch = Batch(sentences("right", begin=True))
    with torch.no_grad():
        assert torch.equal(model.hidden(batch), apart.hidden(batch))
    assert {name.split(".")[2] for name, _ in model.encoder.layers.named_parameters("encoder.layers")} == {
        "0"
    }
    restored = build(
        Experiment.of(repeated(parts, folder, "training.seed=2"), parts).spec, Sizes(12, 4)
    ).eval()
    restore(restored, own_tensors(model), folder)
    with torch.no_grad():
        assert torch.equal(restored.hidden(batch), model.hidden(batch))


def test_each_place_of_a_layer_is_observed(parts, folder, sentences):
    model = build(Experiment.of(repeated(parts, folder), parts).spec, Sizes(12, 4))
    with evaluating(model), observing(model) as records:
        for _ in range(2):
            model.hidden(Batch(sentences("right", begin=True)))
    assert [record.place for record in records] == [
        AttentionLocation("encoder", layer, "self") for layer in range(3)
    ] * 2
    assert not torch.equal(records[0].value, records[1].value)
    assert torch.equal(records[0].value, records[3].value)


def test_initial_values_by_depth_count_every_place(parts, folder):
    """GPT-2 divides by the root of the sublayers: three places of two are as deep as three layers."""
    scheme = "model.initialization={name: normal, residual: true}"
    values = [
        build(Experiment.of(repeated(parts, folder, scheme, architecture), parts).spec, Sizes(12, 4))
        .encoder.layers[0]
        .attention.output.weight
        for architecture in ("model.architecture=again", "model.architecture=encoder-only")
    ]
    assert torch.equal(*values)


def test_an_architecture_that_cannot_build_is_found_before_data_are_read(parts, folder):
    message = (
        r"model.architecture: architecture 'broken' \(local\): building the model failed: "
        "AttributeError: 'Sizes'"
    )
    with pytest.raises(ConfigurationError, match=message):
        repeated(parts, folder, "model.architecture=broken")
