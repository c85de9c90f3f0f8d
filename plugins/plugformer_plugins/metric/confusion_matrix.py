"""Confusion matrix: which class is taken for which."""

from collections import Counter
from collections.abc import Sequence

from plugformer.interfaces import Table
from plugformer_plugins.metric.accuracy import Accuracy

MOST = 100
"""Classes of a table: numbers are as many as their square, and nobody reads millions."""


class ConfusionMatrix(Accuracy):
    """Accuracy, with a table of right classes against predicted ones beside it.

    A class that is neither right nor predicted anywhere has no row. Of more than 100 others, those with most
    mistakes have one.
    """

    def table(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Table:
        """Returns the number of examples of each right class (rows) that got each label (columns)."""
        pairs = [
            (prediction if self.hit(prediction, answers) else answers[0], prediction)
            for prediction, answers in zip(predictions, references, strict=True)
        ]
        counts, found = Counter(pairs), {name for pair in pairs for name in pair}
        mistakes = Counter(name for pair in pairs if pair[0] != pair[1] for name in pair)
        names = sorted(sorted(found, key=lambda name: (-mistakes[name], name))[:MOST])
        rows = {right: [counts[right, predicted] for predicted in names] for right in names}
        cut = f" (the {MOST} of {len(found):,} with most mistakes)" if len(found) > MOST else ""
        return Table(f"right classes in rows, predicted ones in columns{cut}", names, rows)
