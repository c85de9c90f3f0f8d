"""Micro F1 of labels."""

from collections.abc import Sequence

from plugformer.interfaces import OutputType
from plugformer_plugins.metric.f1 import MicroF1


class LabelF1(MicroF1):
    """Precision and recall of the labels of all examples together, in their harmonic mean."""

    accepts = frozenset({OutputType.LABELS})

    def found(self, answer: Sequence[str]) -> set[str]:
        """Returns the labels."""
        return set(answer)
