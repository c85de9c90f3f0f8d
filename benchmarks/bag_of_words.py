"""Classifies the test split of a task by counted words: naive Bayes, and logistic regression.

    PLUGFORMER_DATA=... python benchmarks/bag_of_words.py examples/defaults/headlines.yaml

Both see the words and the pairs of neighbours of lower-cased texts. The strength of the prior, and of the
penalty, is the best one on the validation split:

- multinomial naive Bayes with additive smoothing (Manning et al. 2008, section 13.2,
  https://nlp.stanford.edu/IR-book/html/htmledition/naive-bayes-text-classification-1.html);
- logistic regression of tf-idf weights of unit length, with an L2 penalty.
"""

import argparse
import re
from collections import Counter
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp

from plugformer.configuration import resolve
from plugformer.data.preparation import prepare
from plugformer.experiment import Experiment
from plugformer_plugins.metric.accuracy import Accuracy

SMOOTHING = (0.03, 0.1, 0.3, 1.0)
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)


def features(text, pairs):
    """Returns the words of a text, and its pairs of neighbours."""
    words = re.findall(r"\w+", text.lower())
    return [*words, *(map(" ".join, pairwise(words)) if pairs else ())]


def counts(texts, numbers, pairs):
    """Returns a row for each text, a column for each known feature."""
    rows = [[numbers[one] for one in features(text, pairs) if one in numbers] for text in texts]
    indices = np.concatenate([*rows, []]).astype(int)
    ends = np.cumsum([0, *map(len, rows)])
    return sparse.csr_matrix((np.ones(len(indices)), indices, ends), (len(rows), len(numbers)))


def naive_bayes(train, labels, smoothing):
    """Returns a function from counts to the log-probability of each class, up to a constant."""
    classes = np.eye(labels.max() + 1)[labels]
    found = train.T @ classes + smoothing
    weights, prior = np.log(found / found.sum(axis=0)), np.log(classes.mean(axis=0))
    return lambda rows: rows @ weights + prior


def logistic_regression(train, labels, penalty):
    """Returns a function from tf-idf weights to the score of each class."""
    right = np.eye(labels.max() + 1)[labels]
    rows = sparse.hstack([train, np.ones((train.shape[0], 1))]).tocsr()
    columns = rows.T.tocsr()
    penalties = np.append(np.full(train.shape[1], penalty), 0)[:, None]

    def loss(flat):
        weights = flat.reshape(len(penalties), -1)
        scores = rows @ weights
        normalizer = logsumexp(scores, axis=1, keepdims=True)
        value = (normalizer[:, 0] - (scores * right).sum(axis=1)).sum()
        gradient = columns @ (np.exp(scores - normalizer) - right) + penalties * weights
        return value + (penalties * weights**2).sum() / 2, gradient.ravel()

    start = np.zeros(len(penalties) * right.shape[1])
    weights = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    weights = weights.reshape(len(penalties), -1)
    return lambda some: some @ weights[:-1] + weights[-1]


def main():
    """Prints the accuracy of both on the test split, with an interval."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    experiment = Experiment.from_resolved(resolve(parser.parse_args().task))
    splits = prepare(experiment).splits
    texts, references = {}, {}
    for name in ("train", "validation", "test"):
        rows = range(len(splits[name]))
        texts[name] = [splits[name].input(row) for row in rows]
        references[name] = [splits[name].references(row)[0] for row in rows]
    classes = sorted(set(references["train"]))
    labels = {name: np.array([classes.index(one) for one in found]) for name, found in references.items()}
    best = {}
    for pairs in (False, True):
        seen = Counter(one for text in texts["train"] for one in features(text, pairs))
        numbers = {one: number for number, one in enumerate(seen)}
        counted = {name: counts(rows, numbers, pairs) for name, rows in texts.items()}
        documents = np.asarray((counted["train"] > 0).sum(axis=0))[0]
        weighted = {}
        for name, rows in counted.items():
            rows = rows @ sparse.diags(np.log((1 + len(texts["train"])) / (1 + documents)) + 1)
            length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))[:, 0])
            weighted[name] = sparse.csr_matrix(sparse.diags(1 / np.maximum(length, 1e-9)) @ rows)
        for method, values, matrices in (
            (naive_bayes, SMOOTHING, counted),
            (logistic_regression, PENALTIES, weighted),
        ):
            for value in values:
                answers = method(matrices["train"], labels["train"], value)
                chosen = {name: answers(matrices[name]).argmax(axis=1) for name in ("validation", "test")}
                right = (chosen["validation"] == labels["validation"]).mean()
                best.setdefault(method.__name__, []).append((right, pairs, value, chosen["test"]))
    metric = Accuracy()
    for name, tried in best.items():
        right, pairs, value, chosen = max(tried, key=lambda one: one[0])
        statistics = metric.statistics(
            [classes[one] for one in chosen], [[one] for one in references["test"]]
        )
        low, high = metric.interval(statistics)
        print(
            f"{name} ({'words and pairs' if pairs else 'words'}, {value}): validation {right:.4f}, "
            f"test {metric.aggregate(statistics):.4f} [{low:.4f}, {high:.4f}]"
        )


if __name__ == "__main__":
    main()
