"""A difference that is known to be there is found, by real trainings."""

import pytest
from tests.ablation.studies import declared, run

from plugformer_ablation.judging.comparison import Verdict
from plugformer_ablation.judging.findings import find

SHORT = (
    "data.size=1000",
    "model.width=32",
    "training.steps=40",
    "training.evaluate_every=40",
    "training.batch_size=16",
    "training.optimizer.lr=0.01",
    "evaluation.metrics=[token_accuracy]",
    "evaluation.limit=1",
)


def test_a_model_that_cannot_see_order_is_worse_at_dates(registry, tmp_path):
    study = declared("model.position=[learned, none]", settings=SHORT, seeds=4)
    results, _ = run(study, tmp_path / "s", registry)
    (comparison,) = find(results).comparisons
    assert comparison["verdict"] == Verdict.WORSE, comparison


@pytest.mark.long
def test_a_model_that_forgets_most_is_worse_and_streams_are_alike(registry, tmp_path):
    settings = [*SHORT, "training.steps=100", "training.evaluate_every=100"]
    study = declared("model.dropout=[0.1, 0.6]", "training.replicate=[0, 1]", settings=settings, seeds=4)
    results, _ = run(study, tmp_path / "s", registry)
    verdicts = [each["verdict"] for each in find(results).comparisons]
    assert verdicts == [Verdict.WORSE, Verdict.NOT_DISTINGUISHABLE]
