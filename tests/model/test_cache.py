"""Decoding with a cache computes what whole sequences do: any prompts, capacities, rows and parts."""

from dataclasses import replace

import pytest
import torch
from tests.taking import ByToken
from torch import nn

from plugformer.interfaces import CAUSAL, Attention, Batch, Level, Ragged, Tokens
from plugformer.interfaces.context import Slots, State
from plugformer.model import PartSpec, Sizes, build
from plugformer.registry import Kind, Registry
from plugformer_blocks import Within, pad, softmax_attention, split_heads
from plugformer_plugins.architecture.decoder_only import DecoderOnly
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_testing.probes import perturbed
from plugformer_testing.small import small_model

SIZES, STEPS = Sizes(13, 13), 9
LENGTHS = torch.tensor([3, 1, 5])
"""Of the prompts."""


class Sums(Attention):
    """Reads the sum of the values so far, which is all that it keeps."""

    def __init__(self, model):
        super().__init__()
        self.value, self.output = (nn.Linear(model.width, model.width) for _ in range(2))

    def follows(self, view):
        return view == CAUSAL

    def forward(self, x, context):
        value = self.value(x)
        if context.real is not None:
            value = value * context.real[..., None]
        total = value.cumsum(dim=1)
        if context.past is not None:
            total = total + context.past[0]
        context.keep(total[:, -1:])
        return self.output(total.tanh())


class Sharing(MultiHeadAttention):
    """Every second layer reads keys and values of the layer below."""

    def __init__(self, model):
        super().__init__(model)
        if model.place.layer % 2:
            self.reads_layer = model.place.layer - 1
            del self.key, self.value

    def forward(self, x, context):
        if self.reads_layer is None:
            return super().forward(x, context)
        query = context.rotate(split_heads(self.query(x), self.width))
        read = softmax_attention(query, *context.shared, context)
        return self.output(read.transpose(1, 2).flatten(-2))


REGISTRY = Registry.discover()
PARTS = {"sums": Sums, "sharing": Sharing}
PARTS |= {entry.name: REGISTRY.load(Kind.ATTENTION, entry.name) for entry in REGISTRY.entries(Kind.ATTENTION)}
CASES = [(name, "rope", {}) for name in PARTS]
CASES += [("mha", entry.name, {}) for entry in REGISTRY.entries(Kind.POSITION) if entry.name != "rope"]
CASES += [
    ("mha", "learned", {"residual": ByToken}),
    ("mha", "rope", {"view": lambda _: Within(CAUSAL)}),
]


@pytest.fixture(params=CASES, ids=lambda case: "-".join((*case[:2], *case[2])))
def model(request):
    name, position, others = request.param
    torch.manual_seed(3)
    model = small_model(DecoderOnly(), Level.NEXT_TOKEN, SIZES, position=position, layers=3, **others)
    stack = model.spec.stacks["decoder"]
    layers = tuple(
        replace(layer, sublayers={**layer.sublayers, "attention": PartSpec(PARTS[name])})
        for layer in stack.layers
    )
    spec = replace(model.spec, stacks={"decoder": replace(stack, layers=layers)})
    return perturbed(build(spec, SIZES))


@pytest.fixture(autouse=True)
def small_bucket(monkeypatch):
    """A cache begins with two slots, and grows as prompts and steps come."""
    monkeypatch.setattr("plugformer.model.decoder.BUCKET", 2)


@pytest.fixture
def texts():
    return torch.randint(3, 13, (3, 5 + STEPS), generator=torch.Generator().manual_seed(4))


@pytest.fixture
def alone(model, texts):
    """What the model computes of each text by itself, at once."""
    with torch.no_grad():
        rows = [model.decoder(full(text[None]))[0] for text in texts]
    return torch.stack(rows)


def full(ids):
    return Tokens(ids, torch.ones_like(ids, dtype=torch.bool), full=True)


def begun(model, texts):
    rows = [text[:length].tolist() for text, length in zip(texts, LENGTHS, strict=True)]
    return model.begin(Batch(target=pad(Ragged.of(rows), end=False), given=LENGTHS))


@torch.no_grad()
@pytest.mark.parametrize("moved", [None, [2, 0, 2, 1], [1]], ids=["all rows", "more rows", "one row"])
def test_prompts_together_are_continued_as_each_alone(model, texts, alone, moved):
    rows, at = torch.arange(3), LENGTHS
    past, hidden = begun(model, texts)
    for step in range(STEPS):
        torch.testing.assert_close(hidden, alone[rows, at - 1])
        if step == 4 and moved is not None:
            chosen = torch.tensor(moved)
            past.select(chosen)
            rows, at = rows[chosen], at[chosen]
        hidden = model.step(full(texts[rows, at][:, None]), past)[:, 0]
        at = at + 1


@torch.no_grad()
def test_rows_may_get_different_numbers_of_tokens(model, texts, alone):
    """Also none: as after the last target of a row, while others go on."""
    past, _ = begun(model, texts)
    at, rows = LENGTHS, torch.arange(3)[:, None]
    for counts in ([2, 3, 1], [0, 1, 2], [4, 0, 0], [1, 1, 1]):
        counts = torch.tensor(counts)
        columns = torch.arange(int(counts.max()))
        mask, places = columns < counts[:, None], at[:, None] + columns
        ids = torch.where(mask, texts[rows, places], 0)
        hidden = model.step(Tokens(ids, mask), past)
        torch.testing.assert_close(hidden[mask], alone[rows, places][mask])
        at = at + counts


def test_growing_moves_old_tokens_rarely():
    model = small_model(DecoderOnly(), Level.NEXT_TOKEN, SIZES, max_length=300)
    places, cache = [], model.decoder.start()
    with torch.no_grad():
        for _ in range(65):
            model.decoder(full(torch.full((1, 1), 5)), cache=cache)
            (key, _) = cache.layers[0]["attention"].tokens
            places.append((key.data_ptr(), key.shape[2]))
    assert [capacity for _, capacity in dict.fromkeys(places)] == [2, 4, 8, 16, 32, 64, 128]


def test_selected_rows_keep_their_order():
    state, slots = State(), Slots(start=0, index=None, end=2, capacity=4)
    new = torch.arange(12.0).view(3, 1, 2, 2)
    state.write((new,), slots)
    for order in ([2, 0, 0], [0, 1, 2], [0, 1, 1, 2]):
        state.select(torch.tensor(order), 2)
        new = new[order]
        assert torch.equal(state.tokens[0][:, :, :2], new)


@torch.no_grad()
def test_slots_of_no_token_are_finite(model, texts, monkeypatch):
    """A masked key has no weight, but zero times a value that is not finite is not zero."""

    def new_empty(like, *shape):
        return like.new_full(shape, torch.nan if like.is_floating_point() else 1)

    monkeypatch.setattr(torch.Tensor, "new_empty", new_empty)
    past, _ = begun(model, texts)
    past.select(torch.tensor([2, 1, 0, 0]))
    for _ in range(STEPS):
        assert model.step(full(torch.full((4, 1), 5)), past).isfinite().all()
