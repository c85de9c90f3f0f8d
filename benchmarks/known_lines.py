"""How much of each split of a sequence-to-sequence task its training examples already contain.

    PLUGFORMER_DATA=... python benchmarks/known_lines.py couplets [--set KEY=VALUE]

Counted are the examples whose source, and whose target, is a side of a training example, and the sequences of
four characters in targets that occur on either side of one; of these the mean over examples.
"""

import argparse

import numpy as np

from plugformer.configuration import resolve
from plugformer.data.preparation import prepare
from plugformer.experiment import Experiment

LENGTH = 4


def grams(text):
    """Returns the sequences of four characters of a text."""
    return {text[at : at + LENGTH] for at in range(len(text) - LENGTH + 1)}


def sides(split):
    """Returns the sources and the targets of a split."""
    rows = range(len(split))
    return [split.input(row) for row in rows], [split.references(row)[0] for row in rows]


def main():
    """Prints a Markdown table, a row for each split but training."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    splits = prepare(Experiment.from_resolved(resolve(arguments.task, arguments.set))).splits
    lines = {text for side in sides(splits["train"]) for text in side}
    known = set().union(*map(grams, lines))
    print("| split | sources known | targets known | four characters of targets known |")
    print("| --- | --- | --- | --- |")
    for name, split in splits.items():
        if name != "train":
            sources, targets = sides(split)
            parts = [grams(each) for each in targets if len(each) >= LENGTH]
            shares = [np.mean([text in lines for text in side]) for side in (sources, targets)]
            shares.append(np.mean([len(each & known) / len(each) for each in parts]))
            print("|".join(["", f" {name} ", *(f" {100 * share:.1f} % " for share in shares), ""]))


if __name__ == "__main__":
    main()
