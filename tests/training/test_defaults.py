"""What is not said in a task serves it: defaults that learn."""

import numpy as np
import pytest

from plugformer.training.train import train

TASK = """
type: classification
data: {name: table, files: {train: texts.csv}, columns: {text: text, label: label}, split: {validation: 400}}
tokenizer: whitespace
model: {architecture: encoder-only, head: classifier}
training: {batch_size: 64, epochs: 5}
evaluation: {metrics: [accuracy], limit: null, samples: 0}
"""
WORDS = 300
"""A quarter of them praise, a quarter complain, the others say nothing."""


def texts(number):
    """Returns rows of eight words, of which those that praise and those that complain are not as many."""
    generator, rows = np.random.default_rng(1), []
    while len(rows) < number:
        words = generator.integers(WORDS, size=8).tolist()
        balance = sum({0: 1, 1: -1}.get(word % 4, 0) for word in words)
        if balance:
            rows.append(
                f"{' '.join(f'w{word}' for word in words)},{'praise' if balance > 0 else 'complaint'}"
            )
    return rows


def test_an_encoder_learns_the_sense_of_rare_words(tmp_path):
    """With embeddings that start as large as they are used, and move little, it reaches 0.8."""
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *texts(1600)]))
    (tmp_path / "task.yaml").write_text(TASK)
    report = train(str(tmp_path / "task.yaml"), out=tmp_path / "run", notify=str).report
    assert report.metrics["accuracy"]["value"] >= 0.88


@pytest.mark.parametrize(("number", "tokens"), [(1600, 375), (800, 256), (10_000, 2048)])
def test_batches_of_few_data_are_small(tmp_path, number, tokens):
    """An epoch has 32 updates, unless batches would have fewer than 256 positions; a text has 10 here."""
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *texts(number)]))
    task = TASK.replace("{batch_size: 64, epochs: 5}", "{steps: 1}")
    (tmp_path / "task.yaml").write_text(task.replace("limit: null", "limit: 8, baselines: []"))
    notices = []
    trained = train(str(tmp_path / "task.yaml"), out=tmp_path / "run", notify=notices.append)
    assert trained.task.training.batch_tokens == tokens
    assert trained.task.model.token_dropout == 0.3  # of the task type
    assert not trained.model.training
    assert any(f"batch_tokens is {tokens}" in notice for notice in notices) == (tokens < 2048)
