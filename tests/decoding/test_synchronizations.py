"""How often a step of decoding waits for the device."""

from collections import Counter

import pytest
import torch
from tests.decoding.test_sessions import HEAD, AtMost, lively
from tests.synchronizing import Synchronizations

from plugformer.interfaces import Batch, Session
from plugformer.interfaces.decoding import LOOK
from plugformer.registry import Kind


class Steps(Session):
    """Looks as on a GPU; notes the waits of each: from one token of all rows to the next."""

    def __init__(self, counter, *arguments):
        self.counter, self.seen, self.waits = counter, Counter(), []
        super().__init__(*arguments)
        self.every, self.sentences.of_device = LOOK, True

    def extend(self, tokens):
        super().extend(tokens)
        self.waits.append(dict(self.counter.calls - self.seen))
        self.seen = Counter(self.counter.calls)


CHECK = "is_nonzero"  # whether a row's scores are not finite
EXPECTED = {
    "greedy": {"tolist": 1, CHECK: 1},
    "sampling": {"tolist": 1, CHECK: 1},
    "beam": {"numpy": 32, CHECK: 1},  # of what a CPU has, four arrays of each step; a GPU gives one
}


@pytest.mark.parametrize("search", EXPECTED)
def test_a_search_waits_when_it_looks(registry, tiny_model, sentences, search):
    model = lively(tiny_model("model.layers=2", "model.position=learned", *HEAD))
    with torch.inference_mode(), Synchronizations(model) as counter:
        batch = Batch(sentences(), rows=[0, 1, 2]).to("cpu")
        session = Steps(counter, model, batch, AtMost([15, 15, 15]), [0, 1, 2])
        registry.create(Kind.DECODING, search).search(session)
    assert len(session.waits) > 8
    for step, waits in enumerate(session.waits[1:], start=2):  # the first step includes the beginning
        expected = EXPECTED[search] if step % 8 == 0 else {}
        assert {name: count for name, count in waits.items() if count} == expected
