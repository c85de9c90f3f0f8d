"""Layers whose sublayers take some tokens: what is computed, kept and counted, and what is refused."""

from dataclasses import replace

import pytest
import torch
from tests.taking import BySequence, ByToken
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from plugformer.errors import ConfigurationError, RegistryError
from plugformer.interfaces import Attention, FeedForward, Level, ModelContext, Tokens
from plugformer.model import PartSpec, Sizes, build
from plugformer_inspection.attention import AttentionLocation, _weights, observing
from plugformer_plugins.architecture.decoder_only import DecoderOnly
from plugformer_plugins.architecture.encoder_only import EncoderOnly
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_testing.small import small_model

SIZES = Sizes(13, 13)
LENGTH = 12
READING, WRITING = (EncoderOnly, Level.TOKEN), (DecoderOnly, Level.NEXT_TOKEN)


class EverySecond(ByToken):
    """Takes the tokens at every second place, of whatever it is given."""

    def chosen(self, scores, real):
        return (torch.arange(scores.shape[1]) % 2 == 0).expand_as(scores)


class HalfOfThem(EverySecond):
    """Takes the same, and says how many there are at most."""

    def most(self, length):
        return -(-length // 2)


def model_of(residual, kind=WRITING, **changes):
    architecture, level = kind
    return small_model(architecture(), level, SIZES, residual=residual, **changes)


def tokens_of(*lengths):
    mask = torch.arange(LENGTH) < torch.tensor(lengths)[:, None]
    ids = torch.arange(len(lengths) * LENGTH).view_as(mask) % 9 + 4
    return Tokens(ids * mask, mask, bool(mask.all()))


@pytest.mark.parametrize("shorter", [LENGTH, 5, 0])
def test_nothing_else_is_computed_where_their_number_is_known(shorter):
    """The tokens move together, so that the fused kernel stays; padding is never among them."""
    model, tokens, seen = model_of(HalfOfThem), tokens_of(LENGTH, shorter), []

    def look(module, arguments, output):
        if isinstance(module, Attention | FeedForward):
            x, context = arguments
            assert context.is_causal
            assert context.real.sum().item() == tokens.mask[:, ::2].sum().item()
            seen.append((x.shape[1], context.query.length, context.key.length))

    with torch.no_grad(), register_module_forward_hook(look):
        model.decoder(tokens)
    assert seen == [(6, 6, 6)] * 4


@pytest.mark.parametrize("residual", [EverySecond, HalfOfThem])
@pytest.mark.parametrize("position", ["rope", "alibi", "t5", "learned"])
def test_tokens_keep_their_positions(position, residual):
    """What is taken reads what is taken, as in a model of full layers with a mask between the tokens."""
    model, tokens = model_of(residual, READING, position=position), tokens_of(LENGTH, 7)
    taken = (torch.arange(LENGTH) % 2 == 0) & tokens.mask
    whole = model_of(ByToken, READING, position=position)
    whole.load_state_dict(model.state_dict())
    for layer in whole.encoder.layers:
        layer.residual = Masked(layer.residual, taken)
        layer.attention.forward = masked(layer.attention.forward, taken)
    with torch.no_grad():
        expected, found = (each.encoder(tokens).hidden[tokens.mask] for each in (whole, model))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", [READING, WRITING])
def test_a_known_number_changes_no_number(kind):
    """Outputs and gradients are those of all tokens computed with a mask."""
    tokens, found = tokens_of(LENGTH, 7, 1), []
    for residual in (EverySecond, HalfOfThem):
        model = model_of(residual, kind)
        if found:
            model.load_state_dict(found[0][0].state_dict())
        (stack,) = model.stacks.values()
        output = stack(tokens)
        hidden = getattr(output, "hidden", output)[tokens.mask]
        (hidden * torch.linspace(-1, 1, hidden.numel()).view_as(hidden)).sum().backward()
        found.append((model, hidden, {name: each.grad for name, each in stack.named_parameters()}))
    torch.testing.assert_close(found[0][1:], found[1][1:])


class Masked(nn.Module):
    """Sublayers compute everything, and what they give is zero at tokens not taken."""

    takes = "all"

    def __init__(self, residual, taken):
        super().__init__()
        self.norms, self.taken = residual.norms, taken

    def forward(self, x, sublayers):
        for name, sublayer in sublayers.items():
            x = x + sublayer(self.norms[name](x)) * self.taken[..., None]
        return x


def masked(forward, taken):
    return lambda x, context: forward(x, replace(context, key=replace(context.key, mask=taken)))


def test_weights_are_shown_where_the_tokens_are():
    model = model_of(EverySecond, READING)
    with torch.no_grad(), observing(model) as records:
        model.encoder(tokens_of(LENGTH))
    weights = _weights(records, AttentionLocation("encoder", 1, "self"), (LENGTH, LENGTH))
    assert weights.shape == (4, LENGTH, LENGTH)
    taken = torch.arange(LENGTH) % 2 == 0
    torch.testing.assert_close(weights.sum(-1), taken.float().expand(4, -1))
    assert not weights[..., ~taken].any()


def test_a_choice_by_sequence_is_refused_in_a_causal_stack():
    with pytest.raises(ConfigurationError, match=r"'BySequence' .* chooses .* Causal\(\) hides"):
        model_of(BySequence)


def test_a_choice_that_is_not_declared_is_refused():
    class Undeclared(ByToken):
        takes = "all"

    with pytest.raises(RegistryError, match="Undeclared takes some tokens only; set its `takes`"):
        model_of(Undeclared, READING).encoder(tokens_of(LENGTH))


def test_layers_that_share_states_take_all_tokens():
    class Reader(MultiHeadAttention):
        def __init__(self, model: ModelContext) -> None:
            super().__init__(model)
            self.reads_layer = model.place.layer - 1 if model.place.layer else None

    spec = model_of(ByToken, READING).spec
    stack = spec.stacks["encoder"]
    sublayers = {**stack.layers[0].sublayers, "attention": PartSpec(Reader)}
    layers = tuple(replace(layer, sublayers=sublayers) for layer in stack.layers)
    spec = replace(spec, stacks={"encoder": replace(stack, layers=layers)})
    with pytest.raises(
        ConfigurationError, match=r"Reader in layer 1 .* state of layer 0 .* takes some tokens"
    ):
        build(spec, SIZES)
