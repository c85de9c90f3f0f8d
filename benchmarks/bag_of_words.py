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

import numpy as np
import torch
from scipy import sparse

from plugformer.configuration import resolve
from plugformer.data.preparation import prepare
from plugformer.experiment import Experiment
from plugformer_plugins.metric.accuracy import Accuracy

SMOOTHING = (0.03, 0.1, 0.3, 1.0)
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)


def features(text, pairs):
    """Returns the words of a text, and its pairs of neighbours."""
    words = re.findall(r"\w+", text.lower())
    return [*words, *(map(" ".join, zip(words, words[1:], strict=False)) if pairs else ())]


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
    rows, targets = as_torch(train), torch.from_numpy(labels)
    weights = torch.zeros(train.shape[1], int(labels.max()) + 1, dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(weights.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=100, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        scores = torch.sparse.mm(rows, weights) + bias
        value = torch.nn.functional.cross_entropy(scores, targets, reduction="sum")
        value = value + penalty / 2 * weights.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return lambda rows: (torch.sparse.mm(as_torch(rows), weights) + bias).detach().numpy()


def as_torch(matrix):
    """Returns a sparse matrix of torch."""
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr),
        torch.from_numpy(matrix.indices),
        torch.from_numpy(matrix.data),
        matrix.shape,
    )


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
        statistics = metric.statistics([classes[one] for one in chosen], [[one] for one in references["test"]])
        low, high = metric.interval(statistics)
        print(
            f"{name} ({'words and pairs' if pairs else 'words'}, {value}): validation {right:.4f}, "
            f"test {metric.aggregate(statistics):.4f} [{low:.4f}, {high:.4f}]"
        )


if __name__ == "__main__":
    main()
