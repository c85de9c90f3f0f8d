"""Counted words: the worked example of a textbook, and least squares solved otherwise."""

import numpy as np
import pytest
from scipy import sparse

from plugformer_plugins.baseline.bag_of_words import BagOfWords, NaiveBayes, Ridge
from plugformer_plugins.baseline.words import counts, features, words


def test_naive_bayes_is_that_of_the_textbook():
    # Manning et al. 2008, table 13.1 and example 13.1: P(c | d5) is proportional to 0.0003 and 0.0001.
    texts = ["Chinese Beijing Chinese", "Chinese Chinese Shanghai", "Chinese Macao", "Tokyo Japan Chinese"]
    labels, numbers = ["yes", "yes", "yes", "no"], {}
    for word in words(" ".join(texts)):
        numbers.setdefault(word, len(numbers))
    model = NaiveBayes(labels)
    model.learn(counts(list(map(words, texts)), numbers), model.targets(labels), 1.0)
    scores = model.scores(counts([words("Chinese Chinese Chinese Tokyo Japan")], numbers))
    assert model.names == ["no", "yes"]
    exact = [1 / 4 * (2 / 9) ** 5, 3 / 4 * (3 / 7) ** 3 * (1 / 14) ** 2]
    assert np.exp(scores[0]).tolist() == pytest.approx(exact)
    assert np.round(exact, 4).tolist() == [0.0001, 0.0003]


def test_ridge_solves_its_normal_equations():
    generator = np.random.default_rng(1)
    given, numbers = generator.poisson(1.0, (30, 4)).astype(float), generator.normal(3, 1, 30)
    model = Ridge(numbers.tolist())
    model.learn(sparse.csr_matrix(given), model.targets(numbers.tolist()), 0.7)
    scaled = given / np.maximum(np.linalg.norm(given, axis=1), 1)[:, None]
    solved = np.linalg.solve(scaled.T @ scaled + 0.49 * np.eye(4), scaled.T @ (numbers - numbers.mean()))
    expected = scaled @ solved + numbers.mean()
    assert model.scores(sparse.csr_matrix(given))[:, 0].tolist() == pytest.approx(expected, abs=1e-4)


def test_words_of_two_texts_say_who_has_them():
    found = [*features({"first": "A man walks", "second": "a Man sleeps"})]
    assert [name for name in found if "shared" not in name] == [
        "a [0, 1]",
        "man [0, 1]",
        "walks [0]",
        "sleeps [1]",
    ]
    assert [found.count(name) for name in ("shared", "not shared")] == [2, 2]
    assert [*features({"text": "春天 is here"})] == ["春", "天", "is", "here", "春 天", "天 is", "is here"]


def test_several_labels_are_decided_one_by_one():
    texts = [f"{colour} {shape} {number}" for colour in "rgb" for shape in "xyz" for number in range(9)]
    outputs = [[name for name in "rx" if name in text] for text in texts]
    baseline = BagOfWords()
    baseline.fit([{"text": text} for text in texts], outputs)
    answers = baseline.answer([{"text": text} for text in ("r x", "g x", "r y", "b z")], (), 1)
    assert [answer.output for answer in answers] == [["r", "x"], ["x"], ["r"], []]
