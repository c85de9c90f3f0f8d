"""BLEU as sacreBLEU computes it: comparable across papers, by its signature."""

from typing import Annotated, Literal

from pydantic import Field
from sacrebleu.metrics import bleu

from plugformer_plugins.metric.sacrebleu_score import SacreBLEUScore


class BLEU(SacreBLEUScore):
    """Bilingual evaluation understudy, between 0 and 100: n-grams up to 4, smoothed exponentially.

    Papineni et al. (2002), https://aclanthology.org/P02-1040, in the form of Post (2018),
    https://arxiv.org/abs/1804.08771. It tokenizes by itself: outputs and references are plain text.

    Args:
        tokenize: How both sides are cut into words.
        lowercase: Whether letter case is ignored.
    """

    def __init__(
        self,
        *,
        tokenize: Annotated[
            Literal["13a", "intl", "zh", "char", "none"],
            Field(
                description="13a (the standard), intl (punctuation by Unicode), zh (Chinese characters are "
                "words), char (all characters are), or none (words stand between white space)."
            ),
        ] = "13a",
        lowercase: Annotated[bool, Field(description="Ignore letter case.")] = False,
    ) -> None:
        super().__init__(bleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=True))
