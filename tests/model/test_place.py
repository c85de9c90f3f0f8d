"""Every part is told where it stands, and one that cannot serve its place is refused."""

import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.experiment import Experiment
from plugformer.interfaces import CAUSAL, Place
from plugformer.model import Sizes, build
from plugformer.validation import validate

PARTS = '''
from plugformer.errors import ConfigurationError
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_plugins.feed_forward.networks import GELU
from plugformer_plugins.head.pooling import Classifier
from plugformer_plugins.head.language_model import LanguageModel
from plugformer_plugins.norm.norms import LayerNorm
from plugformer_plugins.position.rotary import Rotary


def noting(base):
    class Noting(base):
        def __init__(self, model):
            super().__init__(model)
            self.place = model.place

    return Noting


Attention, Network, Norm, Position = map(noting, (MultiHeadAttention, GELU, LayerNorm, Rotary))
Labels, Tokens = map(noting, (Classifier, LanguageModel))


class Causal(MultiHeadAttention):
    """Reads only what stands before."""

    def __init__(self, model):
        super().__init__(model)
        if not model.place.causal:
            raise ConfigurationError("causal reads no text from both sides\\nchoose another attention")


class Shallow(GELU):
    def __init__(self, model):
        super().__init__(model)
        if model.place.layer > 1:
            raise ConfigurationError("only two layers")
'''
MANIFEST = """\
components:
  attention:
    noting: {class: "parts_of_place_tests:Attention"}
    causal: {class: "parts_of_place_tests:Causal"}
  feed_forward:
    noting: {class: "parts_of_place_tests:Network"}
    shallow: {class: "parts_of_place_tests:Shallow"}
  norm: {noting: {class: "parts_of_place_tests:Norm"}}
  position: {noting: {class: "parts_of_place_tests:Position"}}
  head:
    noting: {class: "parts_of_place_tests:Tokens"}
    noting_labels: {class: "parts_of_place_tests:Labels"}
"""
NOTING = [f"model.{kind}=noting" for kind in ("attention", "feed_forward", "norm", "position", "head")]
SIZES = ["model.width=8", "model.heads=2", "model.ffn_width=8"]


@pytest.fixture(scope="module")
def parts(registry, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    (folder / "parts_of_place_tests.py").write_text(PARTS)
    (folder / "registry.yaml").write_text(MANIFEST)
    return registry.with_local(folder / "registry.yaml")


@pytest.fixture
def check(parts):
    def check(*overrides, layers=3):
        return validate(resolve("dates", [*SIZES, f"model.layers={layers}", *overrides], parts))

    return check


def places(task, registry) -> dict[str, Place]:
    model = build(Experiment.of(task, registry).spec, Sizes(9, 9))
    return {name: module.place for name, module in model.named_modules() if hasattr(module, "place")}


def test_each_part_is_told_its_place(check, parts):
    own = "model.decoder.cross_attention.position=noting"
    task = check(*NOTING, own, "model.decoder.layers=2").task
    found = places(task, parts)
    assert found["encoder.position"] == Place(layers=3, read_by=2)
    assert found["encoder.layers.2.attention"] == Place(layer=2, layers=3, read_by=2)
    assert found["encoder.layers.1.feed_forward"] == Place(layer=1, layers=3, read_by=2)
    assert found["encoder.final_norm"] == Place(layer=3, layers=3, read_by=2)
    decoder = {"stack": "decoder", "layers": 2}
    assert found["decoder.position"] == Place(view=CAUSAL, **decoder)
    assert found["decoder.cross_position"] == Place(cross=True, **decoder)
    assert found["decoder.layers.1.attention"] == Place(layer=1, view=CAUSAL, **decoder)
    assert found["decoder.layers.1.cross_attention"] == Place(layer=1, cross=True, **decoder)
    assert found["decoder.layers.0.residual.norms.feed_forward"] == Place(view=CAUSAL, **decoder)
    assert found["head"] == found["decoder.final_norm"] == Place(layer=2, view=CAUSAL, **decoder)
    # three norms and networks in each layer of the decoder, two in the encoder's
    assert len(found) == 3 * 4 + 2 * 6 + len(("position", "final_norm")) * 2 + len(("cross", "head"))


def test_a_classifier_stands_above_the_encoder(parts):
    settings = ["model.layers=2", "model.head=noting_labels", "model.width=8", "model.heads=2"]
    task = resolve("ag-news", settings, parts).task
    assert places(task, parts) == {"head": Place(layer=2, layers=2)}


def refused(check, *overrides) -> str:
    with pytest.raises(ConfigurationError) as caught:
        check(*overrides)
    return str(caught.value)


def test_a_place_that_a_part_cannot_serve_is_named(check):
    message = refused(check, "model.attention=causal")
    assert message == (
        "--set model.attention=causal  model.attention: causal reads no text from both sides\n"
        "  choose another attention"
    )
    message = refused(check, "model.decoder.attention=causal")
    assert "cross-attention in layer 0 of the decoder: causal reads" in message
    check("model.decoder.attention=causal", "model.decoder.cross_attention.attention=mha")


def test_every_layer_is_tried(check):
    message = refused(check, "model.feed_forward=shallow")
    assert "model.feed_forward: layer 2 of the encoder: only two layers" in message
    check("model.feed_forward=shallow", layers=2)
