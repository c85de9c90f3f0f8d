"""Decoding: cached equals recomputed, a batch equals single sentences, pieces equal one pass."""

import pytest
import torch
from tests.recomputing import RecomputingSession

from plugformer.interfaces import (
    BEGIN,
    END,
    PADDING,
    AllowedOutputs,
    AllowedTokens,
    Batch,
    Session,
    Tokens,
)
from plugformer.registry import Kind

VOCABULARY = 12  # of tiny models
LIMITS = [2, 5, 3]
CLOSE = {"atol": 1e-6, "rtol": 1e-5}  # log-probabilities are float32, whatever the model

searches = pytest.mark.parametrize("search", ["greedy", "sampling", "beam"])


@pytest.fixture(params=["none", "rope"])
def model(tiny_model, request):
    """A model that may rotate queries and keys in cross-attention, too, as some translation models do.

    That every attention and position keeps its cache, `tests/model/test_cache.py` and contracts say.
    """
    cross = f"model.decoder.cross_attention.position={request.param}"
    return lively(tiny_model("model.attention=gqa", "model.position=rope", cross, "model.layers=2", *HEAD))


HEAD = ("model.head={name: language_model, bias: true}", "model.embeddings.shared=false")


def lively(model):
    """Makes the outputs of an untrained model depend visibly on what it reads."""
    model = model.double().eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.add_(0.3 * noise)
        model.head.bias[END] = -2.0  # so that limits end most sentences, each at another time
    return model.requires_grad_(False)


def decoding_of(registry, search):
    options = {"seed": 5} if search == "sampling" else {}
    return registry.create(Kind.DECODING, search, **options)


def session(kind, model, source, keys=(0, 1, 2)):
    batch = Batch(source, rows=list(range(len(keys))))
    return kind(model, batch, AtMost([LIMITS[key] for key in keys]), list(keys))


class AtMost(AllowedOutputs):
    """Allows outputs of all tokens, up to each sentence's limit."""

    def __init__(self, limits):
        self.limits = torch.as_tensor(limits)

    def start(self, lengths, room):
        assert (self.limits <= room).all()
        return AllowedTokens(torch.zeros_like(self.limits), self.limits)


def watched(kind):
    """Returns a kind of session that keeps the hidden states of every step."""

    class Watched(kind):
        def __init__(self, *arguments):
            self.seen = []
            super().__init__(*arguments)

        def _advance(self, tokens):
            self.seen.append(super()._advance(tokens))
            return self.seen[-1]

    return Watched


def assert_same(one, other):
    assert [[h.tokens for h in hypotheses] for hypotheses in one] == [
        [h.tokens for h in hypotheses] for hypotheses in other
    ]
    for mine, yours in zip(one, other, strict=True):
        assert mine[0].score == pytest.approx(yours[0].score, abs=1e-5)


@searches
def test_cached_equals_recomputed(model, registry, sentences, search):
    results = []
    for kind in (Session, RecomputingSession):
        opened = session(watched(kind), model, sentences())
        results.append((decoding_of(registry, search).search(opened), opened.seen))
    (cached, steps), (recomputed, expected) = results
    assert len(steps) == len(expected) > 2
    torch.testing.assert_close(steps, expected, **CLOSE)
    assert_same(cached, recomputed)
    lengths = {len(hypotheses[0].tokens) for hypotheses in cached}
    assert len(lengths) > 1, "sentences must finish at different times to show anything"


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([2, 0, 2, 2], [2, 0, 2, 2]),  # repeats, a drop, another order, and more rows than before
        ([2, 2, 0, 0], [2, 0]),  # beams that share a source
    ],
)
def test_rows_that_move_in_the_middle_equal_recomputing_them(model, sentences, rows, kept):
    source, target = sentences(), sentences("none", begin=True)
    rows, kept = torch.tensor(rows), torch.tensor(kept)
    cache = model.decoder.start(model.encoder(source))
    model.decoder(part(target, slice(0, 3)), cache=cache)
    cache.select(rows, kept)
    moved = [
        model.decoder(part(target, slice(positions, positions + 1), rows), cache=cache)
        for positions in (3, 4, 5)
    ]
    again = model.encoder(Tokens(source.ids[rows], source.mask[rows]))
    whole = model.decoder(part(target, slice(None), rows), again)
    torch.testing.assert_close(torch.cat(moved, dim=1), whole[:, 3:])


def part(tokens, columns, rows=slice(None)):
    ids = tokens.ids[rows, columns]
    return Tokens(ids, torch.ones_like(ids, dtype=torch.bool), full=True)


@pytest.fixture
def plain(tiny_model):
    return lively(tiny_model(*HEAD))


def test_what_can_never_be_output_and_where_outputs_end(plain, sentences):
    opened = session(Session, plain, sentences())
    assert opened.sentences.tolist() == [0, 1, 2]
    assert opened.sentence_ids == [0, 1, 2]
    for length in range(max(LIMITS) + 1):
        scores = opened.log_probabilities
        assert scores[:, [PADDING, BEGIN]].eq(-torch.inf).all()
        for row, limit in zip(scores, LIMITS, strict=True):
            possible = row.isfinite().nonzero().flatten().tolist()
            assert (possible == [END]) == (length >= limit)
        opened.extend(torch.full((3,), 5))


def test_selected_rows_keep_their_sentence_and_limit(plain, sentences):
    opened = session(Session, plain, sentences())
    for _ in range(2):
        opened.extend(torch.full((3,), 5))
    before = opened.log_probabilities
    opened.select(torch.tensor([2, 1, 2]))
    assert opened.sentences.tolist() == [2, 1, 2]
    assert torch.equal(opened.log_probabilities, before[[2, 1, 2]])
    opened.extend(torch.full((3,), 6))
    only_end = opened.log_probabilities.isfinite().sum(dim=1) == 1
    assert only_end.tolist() == [True, False, True]  # three tokens: sentence 2 is at its limit


def test_no_row_may_be_left(plain, sentences):
    opened = session(Session, plain, sentences())
    opened.extend(torch.full((3,), 5))
    opened.select(torch.tensor([], dtype=torch.long))
    assert len(opened.sentences) == len(opened.log_probabilities) == 0


def test_the_encoder_runs_once_and_finished_rows_are_not_computed(plain, registry, sentences):
    rows, encoded = [], []
    plain.decoder.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    plain.encoder.register_forward_hook(lambda module, inputs, output: encoded.append(output))
    found = registry.create(Kind.DECODING, "greedy").search(session(Session, plain, sentences()))
    steps = [len(hypotheses[0].tokens) + 1 for hypotheses in found]  # END is a step, too
    assert rows == [sum(step > positions for step in steps) for positions in range(max(steps))]
    assert len(encoded) == 1


def lengths(tokens):
    """Returns the lengths of sentences without END."""
    return tokens.mask.sum(dim=1) - 1


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (3, [3, 3, 3]),
        ("source+2", [7, 4, 6]),
        ("source+0", [5, 2, 4]),
        ("source+9", [9, 9, 9]),
        (50, [9] * 3),
    ],
)
def test_length_limits(sentences, setting, expected):
    constraint = AllowedOutputs(10, max_length=setting)
    least, most = constraint.bounds(lengths(sentences()), torch.full((3,), 99))
    assert (least.tolist(), most.tolist()) == ([0] * 3, expected)


def test_the_longest_output_fits_the_model(tiny_model, registry, sentences):
    model = lively(tiny_model("model.max_length=8", "model.position=learned", *HEAD))
    model.head.bias[END] = -100.0
    constraint = AllowedOutputs(8, max_length="source+50")
    found = registry.create(Kind.DECODING, "greedy").search(
        Session(model, Batch(sentences()), constraint, [0, 1, 2])
    )
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [7, 7, 7]  # and BEGIN makes eight
