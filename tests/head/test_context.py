"""What a head sees besides hidden states: the source, the memory, and weights of cross-attention."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.forking import run
from tests.recomputing import RecomputingSession
from torch import nn

import plugformer
from plugformer.errors import ConfigurationError, NotExportableError
from plugformer.interfaces import AllowedOutputs, Session, evaluating
from plugformer_blocks import programs_of
from plugformer_plugins.attention.grouped import MultiHeadAttention
from plugformer_plugins.decoding.beam import Beam
from plugformer_plugins.head.language_model import LanguageModel

ROOT = Path(__file__).parents[2]
VOCABULARY = 16
READ = [[4, 5, 6], [7, 8, 9, 10, 11], [12]]
CONSTRAINT = AllowedOutputs(24, max_length=7)
WRITTEN = [[13], [5, 6, 14], [15, 4]]


class ReadsAll(LanguageModel):
    """Adds scores of the source's tokens, by cross-attention and by products with the memory."""

    reads = frozenset({"source", "memory", "cross_attention"})

    def __init__(self, model):
        super().__init__(model)
        self.query = nn.Linear(model.width, model.width)

    def logits(self, hidden, context):
        ids = context.source.ids[:, None].expand(-1, hidden.shape[1], -1)
        products = (self.query(hidden) @ context.memory.mT).masked_fill(~context.source.mask[:, None], 0.0)
        scores = products + 9 * context.cross_attention[:, 0]
        return super().logits(hidden, context).scatter_add(2, ids, scores)


class Silent(MultiHeadAttention):
    """Records no weights."""

    def forward(self, x, context):
        return super().forward(x, replace(context, observer=None))


def model_of(**settings):
    settings = {"head": ReadsAll, "embeddings": {"shared": True}, "dropout": 0.0, **settings}
    sizes = {"width": 16, "heads": 2, "ffn_width": 16, "layers": 2, "max_length": 24}
    model = plugformer.create_model("encoder-decoder", vocabulary=VOCABULARY, **sizes, **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 8)
    return model


def searched(model, session, size):
    with evaluating(model):
        batch = model.batch(inputs=READ)
        beams = Beam(size=size).search(session(model, batch, CONSTRAINT, [0, 1, 2]))
    return [each for beam in beams for each in beam[:size]]


@pytest.mark.parametrize("size", [1, 3])
def test_a_search_computes_what_one_pass_computes(size):
    model = model_of()
    found = searched(model, Session, size)
    again = searched(model, RecomputingSession, size)
    assert [each.tokens for each in found] == [each.tokens for each in again]
    scores = [each.score for each in found]
    assert scores == pytest.approx([each.score for each in again], abs=1e-4)
    read = [row for row in READ for _ in range(size)]
    batch = model.batch(inputs=read, outputs=[each.tokens for each in found])
    with evaluating(model):
        likely = model.likelihoods(batch).log_probabilities
    assert scores == pytest.approx(likely.tolist(), abs=1e-4)
    assert size == 1 or len({len(each.tokens) for each in found}) > 1


def test_pieces_and_rows_by_themselves_are_the_whole(monkeypatch):
    model = model_of().eval()
    whole = model.likelihoods(model.batch(inputs=READ, outputs=WRITTEN))
    monkeypatch.setattr("plugformer.interfaces.head._POSITIONS", 8)
    pieces = model.likelihoods(model.batch(inputs=READ, outputs=WRITTEN))
    for found, expected in zip(pieces, whole, strict=True):
        torch.testing.assert_close(found, expected)
    for row in range(3):
        alone = model.likelihoods(model.batch(inputs=READ[row : row + 1], outputs=WRITTEN[row : row + 1]))
        torch.testing.assert_close(alone.losses[0], whole.losses[row])


def gradients(model):
    loss = model.train()(model.batch(inputs=READ, outputs=WRITTEN))
    loss.total.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def test_weights_get_gradients_also_where_layers_are_computed_twice():
    plain, twice = model_of(), model_of()
    for stack in twice.stacks.values():
        stack.recompute = True
    expected, found = gradients(plain), gradients(twice)
    assert expected["decoder.layers.1.cross_attention.query.weight"].abs().sum() > 0
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=name)


COMPILED = """
import sys

sys.path.insert(0, "ROOT")
import torch
from plugformer.model import Layer
from tests.head.test_context import LanguageModel, gradients, model_of
from torch._dynamo.testing import CompileCounter

layers, losses = CompileCounter(), CompileCounter()
compute = torch.compile(Layer.compute, backend=layers, dynamic=False, fullgraph=True)
plain, compiled = model_of(), model_of()
for layer in compiled.modules():
    if isinstance(layer, Layer):
        layer.compiled = compute
expected, found = gradients(plain), gradients(compiled)
for name, gradient in expected.items():
    torch.testing.assert_close(found[name], gradient, msg=name)
assert layers.frame_count > 0

model = model_of(head="language_model")
model.compiled_loss = torch.compile(LanguageModel.loss, backend=losses, dynamic=False, fullgraph=True)
for read in ([[4, 5]], [[4, 5, 6]], [[4, 5, 6, 7]]):
    model(model.batch(inputs=read, outputs=[[5, 6]]))
assert losses.frame_count == 1, "it is compiled again for a length that it does not read"
"""


def test_what_the_compiler_sees():
    """In a process of its own, where no annotation is checked: the compiler would look into the checks."""
    ended = run("-c", COMPILED.replace("ROOT", str(ROOT)))
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("head", "order", "observed"), [(ReadsAll, (1, 0), [0]), ("language_model", (0, 1), [])]
)
def test_the_last_layer_alone_gives_up_its_kernel(head, order, observed):
    """The last one that is computed, where an architecture has put the layers into another order."""
    model, seen = model_of(head=head), []
    layers = [*model.decoder.layers]
    for number, layer in enumerate(layers):
        layer.cross_attention.register_forward_pre_hook(
            lambda _, arguments, number=number: seen.append(number) if arguments[1].observed else None
        )
    model.decoder.layers = torch.nn.ModuleList(layers[number] for number in order)
    model(model.batch(inputs=READ, outputs=READ))
    assert seen == observed


@pytest.mark.parametrize("architecture", ["decoder-only", "encoder-only"])
def test_an_architecture_without_a_memory_is_refused(architecture):
    given = {"level": "token", "outputs": 16} if architecture == "encoder-only" else {}
    with pytest.raises(ConfigurationError, match="reads cross_attention and memory"):
        plugformer.create_model(architecture, vocabulary=16, head=ReadsAll, width=16, heads=2, **given)


def test_an_attention_that_records_no_weights_is_refused():
    with pytest.raises(ConfigurationError, match="ReadsAll reads the weights of the last cross-attention"):
        model_of(attention=Silent)


def test_an_exported_step_lacks_what_the_head_reads():
    model = model_of().eval()
    with pytest.raises(NotExportableError, match="ReadsAll reads cross_attention and memory and source"):
        programs_of(model, model.batch(inputs=READ[:2]), model.batch(inputs=READ))
