"""Accuracy: the right class."""

from plugformer_plugins.metric.proportion import Proportion


class Accuracy(Proportion):
    """The share of examples whose predicted label is the reference; labels are compared by name."""
