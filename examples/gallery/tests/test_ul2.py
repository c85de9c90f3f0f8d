"""The mixture of denoisers hides what it restores, and lets a question be read in both directions."""

import numpy as np
import torch
from plugformer_gallery.ul2 import MixtureOfDenoisers, WholeQuestion

from plugformer.interfaces import (
    BEGIN,
    END,
    UNKNOWN,
    Context,
    Encoded,
    PositionalEncoding,
    Positions,
    Ragged,
)
from plugformer_testing import parametrize_with_checks


@parametrize_with_checks("task_type/ul2")
def test_ul2(check):
    check()


def test_texts_are_restored_from_questions_and_spans() -> None:
    text = list(range(10, 40))
    encoded = Encoded(output=Ragged.of([text] * 60))
    drawn = MixtureOfDenoisers().draw(encoded, [np.random.default_rng(seed) for seed in range(60)])
    assert drawn.start is not None
    assert drawn.output is not None
    hidden = []
    for given, output in zip(drawn.start.rows(), drawn.output.rows(), strict=True):
        if given == [BEGIN]:
            assert output == text
            continue
        assert given[:2] == [BEGIN, END] == [BEGIN, given[-1]]
        restored = [token for token in [*given[2:-1], *output] if token != UNKNOWN]
        assert sorted(restored) == text[: len(restored)]
        assert given.count(UNKNOWN) == output.count(UNKNOWN)
        assert len(given) + len(output) <= len(text) + 1
        hidden.append(len(output) - output.count(UNKNOWN))
    assert {np.sign(count - 8) for count in hidden} == {-1, 1}  # of 30 tokens 4, or 13


def test_a_question_alone_is_read_in_both_directions() -> None:
    rows = [[BEGIN, END, 7, UNKNOWN, END, UNKNOWN, 8], [BEGIN, 7, 8, 9, END, 0, 0]]
    ids = torch.tensor(rows)
    at = WholeQuestion().positions(Positions.of(7, PositionalEncoding(), ids > 0), ids)
    seen = Context(at, at, view=WholeQuestion()).mask[:, 0].sum(dim=2)
    assert seen.tolist() == [[4, 4, 4, 4, 5, 6, 7], [1, 2, 3, 4, 5, 5, 5]]
