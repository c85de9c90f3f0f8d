"""Texts found by their vectors: evaluation among a whole split, fixed groups, and answers."""

import random
from dataclasses import replace

import pytest
import torch

import plugformer
from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import evaluating
from plugformer_blocks import nearest_texts

WORDS = ["red", "blue", "green", "dog", "cat", "house", "tree", "car", "big", "small", "old", "new"]
TASK = {
    "type": "retrieval",
    "data": "memory",
    "tokenizer": "characters",
    "model": {"architecture": "encoder-only", "width": 16, "heads": 2, "layers": 1, "head": "contrastive"},
    "training": {"steps": 30, "batch_size": 16, "optimizer": {"name": "adamw", "lr": 0.01}},
    "evaluation": {"metrics": ["recall_at_k", "mrr"], "samples": 1},
}


def pairs(count, seed):
    draw = random.Random(seed)  # noqa: S311
    chosen = [draw.sample(WORDS, 3) for _ in range(count)]
    return [
        {"first": " ".join(words), "second": " ".join(word.upper() for word in words)} for words in chosen
    ]


ROWS = {"train": pairs(400, 1), "validation": pairs(37, 2), "test": [*pairs(30, 3), *pairs(10, 3)]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return plugformer.train(TASK, data=ROWS, out=tmp_path_factory.mktemp("vectors") / "run", notify=str)


@pytest.fixture(scope="module")
def split(trained):
    return trained.read("test")[0]


def brute_force(trained, count):
    """Returns the nearest second texts of the test split for each first one, and the best product."""
    texts = [*dict.fromkeys(row["second"] for row in ROWS["test"])]
    firsts, seconds = (
        trained.vectors([row["first"] for row in ROWS["test"]]),
        trained.vectors(texts, "second"),
    )
    return [[texts[place] for place in row[:count]] for row in (-firsts @ seconds.T).argsort(dim=1).tolist()]


@pytest.mark.parametrize(
    ("texts", "message"), [("red", "found 'red', expected a list"), ([], "no texts; give one")]
)
def test_vectors_are_those_of_a_list(trained, texts, message):
    with pytest.raises(DataError, match=message):
        trained.vectors(texts)


def test_texts_are_found_among_the_whole_split(trained, split):
    rows = [3, 39, 0]
    answers = trained.evaluator().answers(split, rows)
    found = [[answer.output, *(other.output for other in answer.alternatives)] for answer in answers]
    expected = brute_force(trained, 10)
    assert found == [expected[row] for row in rows]
    report = trained.report.metrics
    hits = [row["second"] in ranked for row, ranked in zip(ROWS["test"], expected, strict=True)]
    assert report["recall_at_k"]["value"] == pytest.approx(sum(hits) / len(hits))
    assert report["mrr"]["value"] > 0.5  # by chance below 0.1


@pytest.mark.parametrize(("group", "tokens"), [(8, 10), (8, 1000), (40, 10), (100, 10)])
def test_a_loss_of_batches_has_fixed_groups(trained, split, group, tokens):
    """The last group of 37 rows in groups of 8 is the last 8, of which 5 are new."""
    split = trained.read("validation")[0]
    evaluator = replace(trained.evaluator(), group=group)
    evaluator.predictor.batch_tokens = tokens
    found = evaluator.likelihoods(split)
    expected = []
    for stop in range(group, len(split) + group, group):
        rows = range(max(min(stop, len(split)) - group, 0), min(stop, len(split)))
        with evaluating(trained.model):
            losses = trained.model.likelihoods(split.batch(rows)).losses.tolist()
        expected += losses[-(len(rows) if stop <= len(split) else len(split) - stop + group) :]
    assert found.losses.tolist() == pytest.approx(expected, rel=1e-5)
    assert found.targets.tolist() == [1] * len(split)
    assert found.log_probabilities is None


def test_vectors_are_those_of_either_text(trained):
    first, second = trained.vectors(["red dog"]), trained.vectors(["red dog"], "second")
    assert first.shape == (1, 16)
    assert torch.equal(first, second)  # one encoder reads both
    assert first.norm().item() == pytest.approx(1, abs=1e-6)
    assert trained.vectors(["red dog", "old cat tree"])[0].tolist() == pytest.approx(
        first[0].tolist(), abs=1e-6
    )
    best = nearest_texts(first, trained.vectors(["old cat", "red dog"], "second"), ["old cat", "red dog"])
    assert [answer.output for answer in best] == ["red dog"]
    for name in ("third", "target"):
        with pytest.raises(ConfigurationError, match=f"no vectors of '{name}'.*first, second"):
            trained.vectors(["red dog"], name)


def test_an_answer_needs_texts_to_choose_from(trained):
    with pytest.raises(ConfigurationError, match="--among"):
        trained.predict("red dog")


def test_a_loss_of_batches_needs_their_size(tmp_path):
    training = {"steps": 1}
    with pytest.raises(ConfigurationError, match=r"training.batch_size: .*'contrastive' \(model.head\)"):
        plugformer.train(TASK | {"training": training}, data=ROWS, out=tmp_path / "run", notify=str)
