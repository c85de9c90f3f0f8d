"""How often a step of decoding waits for the device."""

from collections import Counter

import pytest
import torch
from tests.decoding.test_sessions import HEAD, AtMost, lively
from tests.synchronizing import Synchronizations

from plugformer.interfaces import Batch, Session
from plugformer.registry import Kind


class Steps(Session):
    """Notes the waits of each step: from one token of all rows to the next."""

    def __init__(self, counter, *arguments):
        self.counter, self.seen, self.waits = counter, Counter(), []
        super().__init__(*arguments)
        self.sentences.of_device = True

    def extend(self, tokens):
        super().extend(tokens)
        self.waits.append(dict(self.counter.calls - self.seen))
        self.seen = Counter(self.counter.calls)


CHECK = "is_nonzero"  # whether a row's scores are not finite
EXPECTED = {
    "greedy": {"tolist": 1, CHECK: 1},
    "sampling": {"tolist": 1, CHECK: 1},
    "beam": {"cpu": 1, "equal": 1, CHECK: 1},
}


@pytest.mark.parametrize("search", EXPECTED)
def test_a_step_waits_for_what_the_search_decides_by(registry, tiny_model, sentences, search):
    model = lively(tiny_model("model.layers=2", "model.position=learned", *HEAD))
    with torch.inference_mode(), Synchronizations(model) as counter:
        batch = Batch(sentences(), rows=[0, 1, 2]).to("cpu")
        session = Steps(counter, model, batch, AtMost([9, 9, 9]), [0, 1, 2])
        registry.create(Kind.DECODING, search).search(session)
    assert len(session.waits) > 3
    later = session.waits[1:]  # the first step includes the beginning
    usual = max(later, key=later.count)
    assert usual == EXPECTED[search]
    assert all(sum(waits.values()) <= sum(usual.values()) for waits in later)
