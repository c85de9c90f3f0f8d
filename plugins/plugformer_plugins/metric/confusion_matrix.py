"""Confusion matrix: which class is taken for which."""

from collections import Counter
from collections.abc import Sequence

from plugformer.interfaces import Table
from plugformer_plugins.metric.accuracy import Accuracy


class ConfusionMatrix(Accuracy):
    """Accuracy, with a table of right classes against predicted ones beside it.

    A class that is neither right nor predicted anywhere has no row.
    """

    def table(self, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Table:
        """Returns the number of examples of each right class (rows) that got each label (columns)."""
        pairs = [
            (prediction if self.hit(prediction, answers) else answers[0], prediction)
            for prediction, answers in zip(predictions, references, strict=True)
        ]
        counts, names = Counter(pairs), sorted({name for pair in pairs for name in pair})
        rows = {right: [counts[right, predicted] for predicted in names] for right in names}
        return Table("right classes in rows, predicted ones in columns", names, rows)
