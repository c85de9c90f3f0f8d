"""AttentionContext: what is allowed, written out by hand, and which kernel shortcuts are right."""

import pytest
import torch

from plugformer.interfaces import (
    EVERYTHING,
    PAST,
    Attention,
    AttentionContext,
    Padding,
    PositionalEncoding,
    Positions,
)


class Distance(PositionalEncoding):
    """A bias that is easy to recognize: key minus query position."""

    def bias(self, query, key):
        return (key.index[:, None, None, :] - query.index[:, None, :, None]).float()


def at(rows: list[str], padding: Padding, encoding: PositionalEncoding | None = None) -> Positions:
    marks = torch.tensor([[mark == "x" for mark in row] for row in rows])
    return Positions.of(marks, encoding or PositionalEncoding(), padding)


def picture(mask: torch.Tensor) -> list[list[str]]:
    """Draws a (batch, 1, query, key) mask, x for allowed."""
    return [["".join("x" if seen else "." for seen in row) for row in batch] for batch in mask[:, 0].tolist()]


@pytest.mark.parametrize(
    ("rows", "padding", "causal", "expected"),
    [
        (["xxx"], Padding.NONE, False, [["xxx"]]),
        (["xx."], Padding.RIGHT, False, [["xx."]]),
        (["xxx"], Padding.NONE, True, [["x..", "xx.", "xxx"]]),
        (["xx."], Padding.RIGHT, True, [["x..", "xx.", "xx."]]),
        ([".xx"], Padding.ANYWHERE, True, [[".x.", ".x.", ".xx"]]),
        (["x.x"], Padding.ANYWHERE, True, [["x..", "x..", "x.x"]]),
        (["xxx", "..."], Padding.ANYWHERE, False, [["xxx"], ["..."]]),
    ],
)
def test_allowed(rows, padding, causal, expected):
    positions = at(rows, padding)
    assert (
        picture(AttentionContext(positions, positions, view=PAST if causal else EVERYTHING).mask) == expected
    )


def test_a_step_against_a_cache_sees_everything_before_it():
    past = at(["xxx", ".xx"], Padding.ANYWHERE)
    step = past.advance(torch.ones(2, 1, dtype=torch.bool), Padding.NONE)
    context = AttentionContext(step, past.concatenate(step), view=PAST)
    assert picture(context.mask) == [["xxxx"], [".xxx"]]
    assert not context.is_causal


def test_a_chunk_against_a_cache_sees_the_past_and_its_own_past():
    past = at(["xx"], Padding.NONE)
    chunk = past.advance(torch.ones(1, 2, dtype=torch.bool), Padding.NONE)
    context = AttentionContext(chunk, past.concatenate(chunk), view=PAST)
    assert picture(context.mask) == [["xxx.", "xxxx"]]
    assert not context.is_causal
    assert not context.unmasked


@pytest.mark.parametrize(
    ("padding", "causal", "is_causal", "unmasked"),
    [
        (Padding.NONE, False, False, True),
        (Padding.NONE, True, True, False),
        (Padding.RIGHT, False, False, False),
        (Padding.RIGHT, True, True, False),
        (Padding.ANYWHERE, False, False, False),
        (Padding.ANYWHERE, True, False, False),
    ],
)
def test_shortcuts_of_whole_sequences(padding, causal, is_causal, unmasked):
    positions = at(["xxx"], padding)
    context = AttentionContext(positions, positions, view=PAST if causal else EVERYTHING)
    assert (context.is_causal, context.unmasked) == (is_causal, unmasked)


def test_over_other_keys_the_queries_see_what_is_left():
    past = at(["xxx", ".xx"], Padding.ANYWHERE)
    step = past.advance(torch.ones(2, 1, dtype=torch.bool), Padding.NONE)
    notes = print
    context = AttentionContext(step, past.concatenate(step), view=PAST, observer=notes)
    last = context.key.index[:, 2:]
    shorter = context.over(Positions(last, context.key.mask[:, 2:], Padding.ANYWHERE, PositionalEncoding()))
    assert picture(shorter.mask) == [["xx"], ["xx"]]
    assert (shorter.query, shorter.view, shorter.observer) == (step, PAST, notes)


def test_the_bias_from_content_is_asked_for_in_every_layer():
    class Told(PositionalEncoding):
        calls = 0

        def content_bias(self, query_heads, key_heads, query, key):
            self.calls += 1
            return query_heads.sum(-1, keepdim=True) + key_heads.sum(-1)[:, :, None]

    encoding = Told()
    positions = at(["xx"], Padding.NONE, encoding)
    context = AttentionContext(positions, positions, view=EVERYTHING)
    heads = torch.tensor([[[[1.0], [2.0]]]])
    assert context.content_bias(heads, heads).tolist() == [[[[2.0, 3.0], [3.0, 4.0]]]]
    context.content_bias(heads, heads)
    assert encoding.calls == 2


def test_merged_is_none_when_nothing_is_masked():
    positions = at(["xx"], Padding.NONE)
    assert AttentionContext(positions, positions, view=EVERYTHING).attn_mask is None


def test_merged_is_the_mask_without_a_bias():
    positions = at(["x."], Padding.RIGHT)
    context = AttentionContext(positions, positions, view=EVERYTHING)
    assert context.attn_mask is context.mask


def test_merged_is_the_bias_where_allowed():
    positions = at(["xx"], Padding.NONE, Distance())
    full = AttentionContext(positions, positions, view=EVERYTHING)
    causal = AttentionContext(positions, positions, view=PAST)
    assert full.attn_mask.tolist() == [[[[0.0, 1.0], [-1.0, 0.0]]]]
    assert causal.attn_mask.tolist() == [[[[0.0, -torch.inf], [-1.0, 0.0]]]]


def test_cross_attention_is_told_from_self_attention(tiny_model, sentences, monkeypatch):
    model, seen = tiny_model(), set()
    for name, module in model.named_modules():
        if isinstance(module, Attention):

            def attend(query, state, context, name=name, original=module.attend):
                seen.add((name, context.cross))
                return original(query, state, context)

            monkeypatch.setitem(module.__dict__, "attend", attend)
    cache = model.decoder.start(model.encoder(sentences()))
    for _ in range(2):  # the second time with a past
        model.decoder(sentences("none"), cache)
    layers = {f"{stack}.layers.0.attention": False for stack in ("encoder", "decoder")}
    assert dict(seen) == {**layers, "decoder.layers.0.cross_attention": True}
    assert len(seen) == 3
