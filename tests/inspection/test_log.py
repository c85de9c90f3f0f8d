"""The log of a training as curves."""

import pytest

from plugformer.errors import RunError
from plugformer_inspection.history import read_history

LINES = (
    '{"event": "training", "step": 1, "epoch": 1, "loss": 2.5, "learning_rate": 0.1, "tokens_per_second": 9}',
    '{"event": "validation", "step": 1, "loss": 2.0, "bleu": 3.5, "best": true, "seconds": 1.0}',
    '{"event": "training", "step": 2, "epoch": 1, "loss": NaN, "learning_rate": 0.2, "tokens_per_second": 9}',
    '{"event": "validation", "step": 2, "loss": 2.1, "bleu": 3.0, "best": false, "note": "x"}',
)


def test_figures_by_name_and_event(tmp_path):
    log = tmp_path / "metrics.jsonl"
    log.write_text("\n".join(LINES) + '\n{"event": "train')  # a crash left half a line
    history = read_history(log)
    assert set(history.curves) == {"loss", "learning_rate", "bleu"}
    assert history.curves["loss"]["validation"] == [(1, 2.0), (2, 2.1)]
    assert history.curves["loss"]["training"][0] == (1, 2.5)
    assert history.curves["bleu"] == {"validation": [(1, 3.5), (2, 3.0)]}
    assert history.best == 1


def test_no_log_is_an_error(tmp_path):
    with pytest.raises(RunError, match=r"metrics.jsonl is missing"):
        read_history(tmp_path / "metrics.jsonl")
