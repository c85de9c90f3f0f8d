"""The contract of constraints, see plugformer.interfaces.decoding."""

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import BEGIN, END, PADDING, AllowedTokens, Tokenizer
from plugformer.registry import Kind, Registry
from plugformer_testing import require
from plugformer_testing.contract import contract_check
from plugformer_testing.subject import Subject
from plugformer_testing.tokenizer import TRAINING

ROWS, LONGEST = 4, 12


def _vocabulary(subject: Subject) -> Tokenizer:
    """Returns a tokenizer of characters."""

    def trained() -> Tokenizer:
        tokenizer: Tokenizer = Registry.built_in().create(Kind.TOKENIZER, "characters")
        tokenizer.train(iter(TRAINING))
        return tokenizer

    return subject.once("vocabulary", trained)


def _begun(subject: Subject, *most: int) -> AllowedTokens:
    """Returns the beginnings of outputs of at most so many tokens."""
    compiled = subject.once("begin", lambda: subject.create().compile(_vocabulary(subject), 0, LONGEST))
    longest = torch.tensor(most)
    begun: AllowedTokens = compiled(torch.zeros_like(longest), longest)
    return begun


def _scores(subject: Subject, row: int, step: int) -> Float[Tensor, " vocabulary"]:
    """Returns made-up log-probabilities, which depend on the row and the step."""
    generator = torch.Generator().manual_seed(1000 * row + step)
    return torch.randn(_vocabulary(subject).size, generator=generator).mul(3).log_softmax(dim=0)


@contract_check()
def it_only_forbids(subject: Subject) -> None:
    """A mask keeps a log-probability or makes it minus infinity, as always those of PADDING and BEGIN."""
    allowed = _begun(subject, *[LONGEST] * ROWS)
    for step in range(LONGEST):
        scores = torch.stack([_scores(subject, row, step) for row in range(ROWS)])
        masked = allowed.mask(scores.clone())
        forbidden = masked.isneginf()
        require.that(torch.equal(masked[~forbidden], scores[~forbidden]), "the mask changes what it allows")
        require.that(forbidden[:, [PADDING, BEGIN]].all(), "the mask allows PADDING or BEGIN")
        tokens = masked.argmax(dim=1)
        if (tokens == END).any():
            break
        allowed.extend(tokens)


@contract_check()
def every_output_can_end(subject: Subject) -> None:
    """Whatever a model says, some token is allowed, and an output ends within its most tokens."""
    most = (3, LONGEST - 1, LONGEST)
    allowed, ended = _begun(subject, *most), torch.zeros(len(most), dtype=torch.bool)
    for step in range(LONGEST + 1):
        scores = torch.stack([_scores(subject, row, step) for row in range(len(most))])
        scores[:, END] -= 20.0  # a model that does not like to end
        masked = allowed.mask(scores)
        stuck = masked.isneginf().all(dim=1) & ~ended
        require.that(not stuck.any(), f"after {step} tokens the mask allows none, and no end")
        tokens = torch.where(ended, END, masked.argmax(dim=1))
        ended |= tokens == END
        allowed.extend(tokens)
    require.that(ended.all(), f"an output has more than the {LONGEST} tokens that it may have")


@contract_check()
def rows_are_independent(subject: Subject) -> None:
    """What may follow a row is the same alone and among others, also after rows are selected."""
    together, order = _begun(subject, *[LONGEST] * ROWS), [*range(ROWS)]
    alone = [_begun(subject, LONGEST) for _ in order]
    for step in range(LONGEST - 1):
        scores = [_scores(subject, row, step)[None] for row in order]
        masks = torch.cat([alone[row].mask(score.clone()) for row, score in zip(order, scores, strict=True)])
        same = torch.equal(together.mask(torch.cat(scores)), masks)
        require.that(same, f"after {step} tokens, rows together may have other tokens than alone")
        tokens = masks.argmax(dim=1)
        if (tokens == END).any():
            break
        together.extend(tokens)
        for row, token in zip(order, tokens, strict=True):
            alone[row].extend(token[None])
        together.select(torch.arange(ROWS).flip(0))
        order.reverse()
