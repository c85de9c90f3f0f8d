"""Likelihoods of right answers: of sequences whatever the portions and padding, and of labels."""

import pytest
import torch

from plugformer.interfaces import Batch, head

CLASSIFIER = """\
type: classification
data: {name: dates}
tokenizer: characters
model: {architecture: encoder-only, embeddings: {shared: false}, head: classifier}
"""


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


def test_a_label_is_one_target(tiny_model, tmp_path, sentences):
    (tmp_path / "task.yaml").write_text(CLASSIFIER)
    model = tiny_model("model.position=rope", task=str(tmp_path / "task.yaml")).eval()
    source = sentences("right", begin=True)
    best = model.logits(Batch(source)).argmax(-1)
    labels = torch.where(torch.arange(len(best)) == 0, best, (best + 1) % 12)  # the first is right
    found = model.likelihoods(Batch(source, targets=labels))
    expected = model.logits(Batch(source)).softmax(-1)[range(len(labels)), labels].log()
    torch.testing.assert_close(found.log_probabilities, expected)
    assert found.targets.tolist() == [1] * len(labels)
    assert found.correct.tolist() == [1] + [0] * (len(labels) - 1)
