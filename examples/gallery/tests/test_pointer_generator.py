"""A pointer-generator copies what it has not learned to generate."""

import pytest
import torch
from plugformer_gallery.pointer_generator import PointerGenerator

import plugformer
from plugformer.configuration.resolving import resolve
from plugformer.errors import ConfigurationError
from plugformer.interfaces import AllowedOutputs, Generative, HeadContext, HeadInput, Session, Tokens
from plugformer.validation import validate
from plugformer_plugins.decoding.beam import Beam
from plugformer_testing import parametrize_with_checks


@parametrize_with_checks("head/pointer_generator")
def test_pointer_generator(check):
    check()


SEEN, UNSEEN, STEPS = range(4, 104), range(104, 112), 300


def sentences(count: int) -> list[list[int]]:
    lengths = torch.randint(2, 7, (count,)).tolist()
    return [torch.randint(SEEN.start, SEEN.stop, (length,)).tolist() for length in lengths]


def trained(head: object) -> Generative:
    """Returns a model that has learned to repeat sentences of the seen tokens."""
    torch.manual_seed(1)
    sizes = {"width": 32, "heads": 2, "ffn_width": 64, "layers": 1, "max_length": 16, "dropout": 0.0}
    model = plugformer.create_model(
        "encoder-decoder", vocabulary=112, head=head, embeddings={"shared": True}, **sizes
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
    for _ in range(STEPS):
        rows = sentences(48)
        loss = model(model.batch(inputs=rows, outputs=rows))
        optimizer.zero_grad()
        (loss.total / loss.targets).backward()
        optimizer.step()
        schedule.step()
    assert isinstance(model, Generative)
    return model.eval()


def right(model: Generative, rows: list[list[int]], size: int) -> float:
    """Returns the share of sentences that a search repeats."""
    constraint = AllowedOutputs(16, max_length=8)
    with torch.inference_mode():
        session = Session(model, model.batch(inputs=rows), constraint, [*range(len(rows))])
        found = Beam(size=size).search(session)
    return sum(best[0].tokens == row for best, row in zip(found, rows, strict=True)) / len(rows)


def test_it_copies_tokens_that_training_never_showed() -> None:
    pointing, plain = trained(PointerGenerator), trained("language_model")
    known, unknown = sentences(50), sentences(50)
    for number, row in enumerate(unknown):
        row[number % len(row)] = UNSEEN[number % len(UNSEEN)]
    for size in (1, 4):
        assert right(pointing, known, size) > 0.9 > right(plain, known, size)
        assert right(pointing, unknown, size) > 0.15
        assert right(plain, unknown, size) == 0


def test_it_refuses_two_vocabularies() -> None:
    tokenizer = "tokenizer={source: characters, target: characters}"
    embeddings = "model.embeddings.shared=false"
    with pytest.raises(ConfigurationError, match=r"  model\.head: .*one number for source and target"):
        validate(resolve("dates", ["model.head=pointer_generator", tokenizer, embeddings]))
    two = {"source": 9, "target": 9}
    with pytest.raises(ConfigurationError, match="one number for source and target"):
        plugformer.create_model("encoder-decoder", vocabulary=two, head=PointerGenerator, width=8, heads=2)


@pytest.mark.parametrize("generates", [0.0, 0.3])
def test_the_mixture_by_hand(generates: float) -> None:
    """See et al. 2017, equation 9: a token that occurs twice in the source gets both of its shares."""
    head = PointerGenerator(HeadContext(width=2, heads=1, ffn_width=1, outputs=6))
    with torch.no_grad():
        head.query.weight.zero_()  # attends to all of the source alike
        head.weight.zero_()  # generates all of the vocabulary alike
        head.generates.weight.zero_()
        head.generates.bias.fill_(torch.tensor(generates).logit().clamp(min=-40).item())
    source = Tokens(torch.tensor([[4, 5, 4, 2, 0]]), torch.tensor([[True, True, True, True, False]]))
    context = HeadInput(torch.ones(1, 1, dtype=torch.bool), source, torch.randn(1, 5, 2))
    found = head.logits(torch.randn(1, 1, 2), context).exp()[0, 0]
    copied = torch.tensor([0.0, 0.0, 0.25, 0.0, 0.5, 0.25])
    torch.testing.assert_close(found, generates / 6 + (1 - generates) * copied, atol=1e-6, rtol=1e-6)
