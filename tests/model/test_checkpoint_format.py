"""The names of parameters are a file format: runs that people have saved depend on them."""

ATTENTION = [f"{part}.{kind}" for part in ("key", "output", "query", "value") for kind in ("bias", "weight")]
FEED_FORWARD = [f"{part}.{kind}" for part in ("down", "up") for kind in ("bias", "weight")]
NORM = ["bias", "weight"]
LAYER = {
    "attention": ATTENTION,
    "feed_forward": FEED_FORWARD,
    "residual.norms.attention": NORM,
    "residual.norms.feed_forward": NORM,
}
CROSS = {"cross_attention": ATTENTION, "residual.norms.cross_attention": NORM}


def names(stack: str, layer: dict[str, list[str]]) -> list[str]:
    inside = [f"{stack}.layers.0.{part}.{name}" for part, found in layer.items() for name in found]
    return [
        f"{stack}.embedding.weight",
        f"{stack}.position.table.weight",
        *inside,
        f"{stack}.final_norm.bias",
        f"{stack}.final_norm.weight",
    ]


def test_the_model_of_dates(tiny_model):
    expected = [*names("encoder", LAYER), *names("decoder", LAYER | CROSS), "head.weight"]
    assert sorted(tiny_model().state_dict()) == sorted(expected)
