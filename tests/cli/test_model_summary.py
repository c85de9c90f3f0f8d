"""The table of a model: shapes, parameters and operations."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from plugformer import load
from plugformer.interfaces import Batch
from plugformer_cli.model_summary import OtherElements, summarize

WIDTH, HIDDEN, VOCABULARY = 16, 32, 12


@pytest.fixture
def batch(sentences) -> Batch:
    return Batch(sentences("none"), sentences("none", begin=True))


@pytest.fixture
def rows(tiny_model, batch):
    model = tiny_model("model.embeddings.shared=false", "model.layers=2")
    return model, {row.path: row for row in summarize(model, batch)}


def test_parameters_add_up(rows):
    model, table = rows
    for path, row in table.items():
        assert row.parameters == sum(p.numel() for p in model.get_submodule(path).parameters())
    parts = ("encoder", "decoder", "head")
    assert table[""].parameters == sum(table[path].parameters for path in parts)


def test_a_shared_embedding_counts_once(tiny_model, batch):
    model = tiny_model("model.embeddings={shared: true, tied: true}")
    assert summarize(model, batch)[0].parameters == sum({p: p.numel() for p in model.parameters()}.values())


def test_operations_by_hand(rows):
    """Two for each weight of a linear map and each token: sources are 3 x 5 tokens, targets 3 x 5."""
    _, table = rows
    tokens = 3 * 5
    linear = 2 * WIDTH * WIDTH * tokens
    scores = 2 * 2 * 3 * 5 * 5 * WIDTH  # q k and weights times v, over all heads
    forward = 2 * 2 * WIDTH * HIDDEN * tokens
    assert table["head"].flops == 2 * WIDTH * VOCABULARY * tokens
    assert table["encoder.layers.0.feed_forward"].flops == forward
    assert table["encoder.layers.0.attention"].flops == 4 * linear + scores
    assert table["encoder"].flops == 2 * (4 * linear + scores + forward)
    assert table[""].flops == sum(table[path].flops for path in ("encoder", "decoder", "head"))


def test_cross_attention_counts_its_projection_of_the_source(rows):
    _, table = rows
    linear, scores = 2 * WIDTH * WIDTH * 15, 2 * 2 * 3 * 5 * 5 * WIDTH
    assert table["decoder.layers.0.cross_attention"].flops == 4 * linear + scores
    assert table["decoder"].flops == 2 * (8 * linear + 2 * scores + 2 * 2 * WIDTH * HIDDEN * 15)


def test_shapes(rows):
    _, table = rows
    assert table["encoder"].shape == table["decoder"].shape == (3, 5, WIDTH)
    assert table["decoder.layers.1.cross_attention"].shape == (3, 5, WIDTH)
    assert table["head"].shape == table[""].shape == (3, 5, VOCABULARY)


def test_rows_are_what_a_task_file_can_name(rows):
    _, table = rows
    assert list(table)[:7] == [
        "",
        "encoder",
        "encoder.embedding",
        "encoder.position",
        "encoder.layers.0",
        "encoder.layers.0.attention",
        "encoder.layers.0.feed_forward",
    ]
    assert table["encoder.layers.0.attention"].module == "MultiHeadAttention"


@torch.library.custom_op("tests_of_summaries::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    """An operator that no counter knows."""
    return 2 * x


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.view(6, 4).T[1:].expand(2, 3, 6).detach().reshape(6, 6), 6 * 6),  # the last one copies
        (lambda x: x @ x.new_ones(4, 7), 4 * 7),
        (lambda x: torch.nn.functional.gelu(x), 24),
        (lambda x: x.add_(1), 24),
        (lambda x: x[:, :, None] * x[:, None], 2 * 3 * 3 * 4),
        (twice, 24),
    ],
    ids=["views", "products", "elementwise", "in place", "broadcast", "unknown"],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_operators_without_products_count_what_they_write(function, expected, device):
    if function is twice and device == "meta":
        pytest.skip("it has no formula for shapes")
    x = torch.zeros(2, 3, 4, device=device)
    counter = FlopCounterMode(display=False)
    with OtherElements(counter.flop_registry) as others, counter:
        function(x)
    assert others.count == expected


def test_a_run_has_its_own_vocabulary(run, trained):
    model = load(trained.directory)
    described = run("info", str(trained.directory)).out
    parameters = sum(parameter.numel() for parameter in model.model.parameters())
    assert f"{model.processor.source.size:,} input tokens" in described
    assert f": {parameters:,} parameters" in described


@pytest.mark.parametrize("training", [True, False])
def test_the_model_stays_as_it_was(tiny_model, batch, training):
    model = tiny_model().train(training)
    state = torch.get_rng_state()
    summarize(model, batch)
    assert model.training is training
    assert not any(module._forward_hooks for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
