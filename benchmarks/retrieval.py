"""Captions found without a neural network: by shared pieces of words, and by translated words.

    PLUGFORMER_DATA=... python benchmarks/retrieval.py --split test_2016_flickr

For each German caption of a split of Multi30k, the English captions of the same split are ranked by

- the cosine of tf-idf weights of character n-grams (names, numbers and related words are spelled alike);
- the probability of the German words given the English ones under IBM model 1 (Brown et al. 1993, equation
  6, https://aclanthology.org/J93-2003), estimated on the training pairs: retrieval as translation (Berger and
  Lafferty 1999, https://doi.org/10.1145/312624.312681).
"""

import argparse
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
from scipy import sparse

from plugformer_plugins.metric.ranking import MeanReciprocalRank, RecallAtK

ITERATIONS = 5
SMALLEST = 1e-6  # probability of a word that no training pair explains


def words(text):
    """Returns the lower-cased words of a text."""
    return re.findall(r"\w+", text.lower())


def grams(text, sizes=(3, 4, 5)):
    """Returns the character n-grams of a text, within and across its words."""
    padded = f" {' '.join(words(text))} "
    return [padded[at : at + size] for size in sizes for at in range(len(padded) - size + 1)]


def tf_idf(texts, learned_from):
    """Returns rows of unit length, a column for each n-gram of some texts."""
    documents = Counter(gram for text in learned_from for gram in set(grams(text)))
    numbers = {gram: number for number, gram in enumerate(documents)}
    idf = np.log(len(learned_from) / np.array(list(documents.values())))
    rows, columns, values = [], [], []
    for row, text in enumerate(texts):
        for gram, count in Counter(grams(text)).items():
            if gram in numbers:
                rows.append(row)
                columns.append(numbers[gram])
                values.append((1 + np.log(count)) * idf[numbers[gram]])
    matrix = sparse.csr_matrix((values, (rows, columns)), (len(texts), len(numbers)))
    return sparse.diags(1 / np.maximum(sparse.linalg.norm(matrix, axis=1), 1e-9)) @ matrix


def translation_table(german, english):
    """Returns t(german | english) as a sparse matrix, and the words' numbers; English word 0 is empty."""
    german_words, english_words = (
        {word: number for number, word in enumerate(dict.fromkeys(words(" ".join(side))), first)}
        for side, first in ((german, 0), (english, 1))
    )
    f, e, token = [], [], []  # the links of each German word to the English ones of its pair
    for number, (f_text, e_text) in enumerate(zip(german, english, strict=True)):
        given = [0, *(english_words[word] for word in words(e_text))]
        for place, word in enumerate(words(f_text)):
            f += [german_words[word]] * len(given)
            e += given
            token += [number * 1000 + place] * len(given)
    token = np.unique(token, return_inverse=True)[1]
    width = len(english_words) + 1
    pairs, link = np.unique(np.array(f) * width + np.array(e), return_inverse=True)
    pair_f, pair_e = np.divmod(pairs, width)
    table = np.ones(len(pairs))
    for _ in range(ITERATIONS):
        weight = table[link]
        counts = np.bincount(link, weight / np.bincount(token, weight)[token])
        table = counts / np.bincount(pair_e, counts)[pair_e]
    table = sparse.csc_matrix((table, (pair_f, pair_e)), (len(german_words), width))
    return table, german_words, english_words


def translation_scores(questions, candidates, table, german, english):
    """Returns the log-probability of each German text given each English one."""
    scores = np.zeros((len(questions), len(candidates)))
    asked = [[german[word] for word in words(text) if word in german] for text in questions]
    for column, text in enumerate(candidates):
        known = [0, *(english[word] for word in words(text) if word in english)]
        likely = np.log(np.maximum(np.asarray(table[:, known].mean(axis=1))[:, 0], SMALLEST))
        scores[:, column] = [likely[numbers].sum() for numbers in asked]
    return scores


def main():
    """Prints recall at 1 and 10 and mean reciprocal rank of both rankings, with intervals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--split", default="test_2016_flickr")
    split = parser.parse_args().split
    folder = Path(os.environ["PLUGFORMER_DATA"], "multi30k")
    read = lambda name: (folder / name).read_text(encoding="utf-8").splitlines()  # noqa: E731
    train, (german, english) = (
        [read("train.de"), read("train.en")],
        [read(f"{split}.de"), read(f"{split}.en")],
    )
    candidates = list(dict.fromkeys(english))
    matrices = [tf_idf(texts, train[0] + train[1]) for texts in (german, candidates)]
    scores = {
        "character n-grams": (matrices[0] @ matrices[1].T).toarray(),
        "IBM model 1": translation_scores(german, candidates, *translation_table(*train)),
    }
    for name, values in scores.items():
        ranked = [
            [candidates[at] for at in row] for row in np.argsort(-values, axis=1, kind="stable")[:, :10]
        ]
        for metric in (RecallAtK(k=1), RecallAtK(k=10), MeanReciprocalRank()):
            statistics = metric.statistics(ranked, [[text] for text in english])
            low, high = metric.interval(statistics)
            score = metric.aggregate(statistics)
            print(f"{name}: {type(metric).__name__} {metric.depth}: {score:.4f} [{low:.4f}, {high:.4f}]")


if __name__ == "__main__":
    main()
