"""Further sublayers of a layer, by the names that a task gives them."""

import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.model import Sizes, build
from plugformer.validation import validate

NARROW = ("model.width=16", "model.heads=2", "model.layers=2", "model.ffn_width=32", "model.max_length=40")


def built(*settings):
    return build(validate(resolve("dates", [*NARROW, *settings])).spec, Sizes(20, 20))


def test_each_has_its_place_its_parameters_and_its_norm():
    model = built(
        "model.sublayers.wide={feed_forward: swiglu, before: attention}",
        "model.sublayers.again={attention: {name: gqa, kv_heads: 1}, after: attention}",
        "model.sublayers.last={feed_forward: relu}",
    )
    assert model.encoder.layers[0].names == ("wide", "attention", "again", "feed_forward", "last")
    assert model.decoder.layers[1].names == (
        *("wide", "attention", "again", "cross_attention", "feed_forward", "last"),
    )
    assert {*model.encoder.layers[0].residual.norms} == {*model.encoder.layers[0].names}
    assert model.encoder.layers[0].again.kv_heads == 1
    assert not (model.encoder.layers[0].wide.up.weight == model.encoder.layers[1].wide.up.weight).any()


def test_a_stack_has_its_own():
    model = built(
        "model.sublayers.wide={feed_forward: swiglu}",
        "model.encoder.sublayers={}",
    )
    assert model.encoder.layers[0].names == ("attention", "feed_forward")
    assert model.decoder.layers[0].names == ("attention", "cross_attention", "feed_forward", "wide")


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("model.sublayers.wide={feed_forward: swiglu, after: convolution}", "'convolution'"),
        ("model.sublayers.wide={feed_forward: swiglu, after: cross_attention}", "'cross_attention'"),
        ("model.sublayers.dropout={feed_forward: swiglu}", "'dropout'"),
        ("model.sublayers.attention={feed_forward: swiglu}", "'attention'"),
        ("model.sublayers.wide={after: attention}", "give one"),
        ("model.sublayers.wide={attention: mha, feed_forward: gelu}", "exclude each other"),
        ("model.sublayers.wide={attention: mha, after: attention, before: attention}", "exclude each other"),
        ("model.sublayers.Wide={attention: mha}", "Wide"),
    ],
)
def test_what_is_refused(setting, told):
    with pytest.raises(ConfigurationError, match=told):
        built(setting)
