"""chrF and chrF++: n-grams of characters, which need no tokenization."""

from typing import Annotated

from pydantic import Field
from sacrebleu.metrics import chrf

from plugformer_plugins.metric.sacrebleu_score import SacreBLEUScore


class CHRF(SacreBLEUScore):
    """F-score of character n-grams up to 6, between 0 and 100, recall counting twice as much as precision.

    Popović (2015), https://aclanthology.org/W15-3049; with words, Popović (2017),
    https://aclanthology.org/W17-4770. Computed by sacreBLEU.

    Args:
        word_order: Longest word n-grams beside those of characters: 0 is chrF, 2 is chrF++.
        lowercase: Whether letter case is ignored.
    """

    def __init__(
        self,
        *,
        word_order: Annotated[int, Field(ge=0, description="Longest word n-grams; 2 makes it chrF++.")] = 0,
        lowercase: Annotated[bool, Field(description="Ignore letter case.")] = False,
    ) -> None:
        super().__init__(chrf.CHRF(word_order=word_order, lowercase=lowercase))
