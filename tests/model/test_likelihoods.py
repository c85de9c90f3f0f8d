"""Likelihoods of right answers: of sequences whatever the portions and padding, and of labels."""

import pytest

from plugformer.interfaces import Batch, head


@pytest.mark.parametrize("portion", [1, 3, 1024])
@pytest.mark.parametrize("padding", ["right", "left"])
def test_portions_of_positions_make_no_difference(tiny_model, sentences, monkeypatch, portion, padding):
    monkeypatch.setattr(head, "_POSITIONS", portion)
    model = tiny_model().eval()
    batch = Batch(sentences(padding), sentences(padding, begin=True, shift=3))
    found = model.likelihoods(batch)
    targets, real = model.targets(batch)
    log_probabilities = model.logits(batch).log_softmax(-1)
    for row, marks in enumerate(real):
        chosen = log_probabilities[row, marks]
        right = chosen[range(len(chosen)), targets[row, marks]]
        assert found.log_probabilities[row].item() == pytest.approx(right.sum().item(), rel=1e-5)
        assert found.correct[row] == (chosen.argmax(-1) == targets[row, marks]).sum()
        assert found.targets[row] == marks.sum()
    assert found.log_probabilities.sum().item() == pytest.approx(-model(batch).total.item(), rel=1e-5)
