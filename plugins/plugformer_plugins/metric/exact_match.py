"""Exact match: the whole output or nothing."""

from plugformer_plugins.metric.proportion import Proportion


class ExactMatch(Proportion):
    """The share of outputs that equal one of their references, character by character."""
