"""Mirrored repeats: the form that the two lines of a Chinese couplet share."""

from collections.abc import Sequence

from plugformer.interfaces import Table
from plugformer_plugins.metric.proportion import SourceProportion


class MirroredRepeats(SourceProportion):
    """The share of outputs that repeat characters where their source does, and nowhere else.

    An output mirrors its source if both have the same length and, of any two places, the output has the same
    character at both exactly if the source has. 山西悬空寺空悬西山 so answers 上海自来水来自海上: in both,
    places 1 and 9 are equal, 2 and 8, 3 and 7, 4 and 6, and no others. Characters are code points,
    punctuation and spaces included.

    A source without a repeat is mirrored by any output of its length without one. A table therefore counts
    sources with a repeat and without apart.
    """

    def hit(self, source: str, prediction: str) -> bool:
        """Returns whether the prediction has the source's pattern of repeats."""
        return _first_places(prediction) == _first_places(source)

    def table(
        self, sources: Sequence[str], predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Table:
        """Returns the number of outputs that mirror their source, by whether that has a repeat."""
        counts = {"with a repeat": [0, 0], "without": [0, 0]}
        for source, prediction in zip(sources, predictions, strict=True):
            row = "with a repeat" if len(set(source)) < len(source) else "without"
            counts[row][not self.hit(source, prediction)] += 1
        return Table("sources with a repeated character, and without", ["mirrored", "not"], counts)


def _first_places(text: str) -> list[int]:
    """Returns, for each character, the place where it comes first: equal for texts with equal repeats."""
    return [text.index(character) for character in text]
