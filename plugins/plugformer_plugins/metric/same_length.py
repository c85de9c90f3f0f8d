"""Same length: as many characters as the source."""

from plugformer_plugins.metric.proportion import SourceProportion


class SameLength(SourceProportion):
    """The share of outputs that have as many characters (code points) as their source."""

    def hit(self, source: str, prediction: str) -> bool:
        """Returns whether both are of one length."""
        return len(prediction) == len(source)
