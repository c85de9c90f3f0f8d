"""BLEU and chrF, computed by sacreBLEU."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from pydantic import Field
from sacrebleu.metrics import bleu, chrf
from sacrebleu.metrics.base import Metric as Scorer

from plugformer.errors import needing
from plugformer.interfaces import OutputMetric


class SacreBLEUScore(OutputMetric):
    """A corpus score between 0 and 100, all counts taken by sacreBLEU.

    Its `corpus_score` adds up the statistics of sentences and computes a score from the sum, in two methods
    that each of its metrics defines. Its own significance tests call them one by one, and so does this class:
    the whole set scores what `corpus_score` says, and a resample costs no counting.

    Args:
        scorer: The metric of sacreBLEU.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples statistics"]:
        """Returns sacreBLEU's counts for each sentence."""
        return np.array(
            self.scorer._extract_corpus_statistics(predictions, _streams(references)), dtype=float
        )

    def aggregate(self, statistics: Float[ndarray, "examples statistics"]) -> float:
        """Returns the score of the whole corpus, not a mean over sentences."""
        total = statistics.sum(axis=0).astype(int).tolist()
        return float(self.scorer._compute_score_from_stats(total).score)

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        """Returns sacreBLEU's signature: number of references, options and version."""
        numbers = {len(answers): [""] * len(answers) for answers in references}
        self.scorer.corpus_score([""] * len(numbers), _streams(list(numbers.values())))
        return str(self.scorer.get_signature())


class BLEU(SacreBLEUScore):
    """Bilingual evaluation understudy, between 0 and 100: n-grams up to 4, smoothed exponentially.

    Papineni et al. (2002), https://aclanthology.org/P02-1040, in the form of Post (2018),
    https://arxiv.org/abs/1804.08771. It tokenizes by itself: outputs and references are plain text.

    Args:
        tokenize: 13a (the standard), intl (punctuation by Unicode), zh (Chinese characters are words), char
            (all characters are words), or none (white space separates words).
        lowercase: Whether letter case is ignored.
    """

    def __init__(
        self, *, tokenize: Literal["13a", "intl", "zh", "char", "none"] = "13a", lowercase: bool = False
    ) -> None:
        super().__init__(bleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=True))


class CHRF(SacreBLEUScore):
    """F-score of character n-grams up to 6, between 0 and 100, recall counting twice as much as precision.

    Popović (2015), https://aclanthology.org/W15-3049; with words, Popović (2017),
    https://aclanthology.org/W17-4770. Computed by sacreBLEU.

    Args:
        word_order: Length of the longest word n-grams: 0 is chrF, 2 is chrF++.
        lowercase: Whether letter case is ignored.
    """

    def __init__(self, *, word_order: Annotated[int, Field(ge=0)] = 0, lowercase: bool = False) -> None:
        super().__init__(chrf.CHRF(word_order=word_order, lowercase=lowercase))


class TokenizedBLEU(SacreBLEUScore):
    """BLEU between 0 and 100 of words that Moses would cut, to be compared with older papers alone.

    Equals Moses' `multi-bleu.perl -lc` (without `lowercase`: `multi-bleu.perl`) on outputs and references
    that went through `tokenizer.perl -l LANGUAGE`: n-grams up to 4, no smoothing, the closest reference
    length. The tokenizer is sacremoses', a port of that script; with `tokenize: none` the texts are tokenized
    already and words stand between white space. Only a paper can say what it did; `bleu` is what to report.

    Koehn et al. (2007), https://aclanthology.org/P07-2045.

    Args:
        tokenize: Who cuts both sides into words.
        language: Whose rules Moses uses, such as those for apostrophes and abbreviations.
        lowercase: Whether letter case is ignored.

    Raises:
        ConfigurationError: sacremoses is not installed, and is to tokenize.
    """

    def __init__(
        self, *, tokenize: Literal["moses", "none"] = "moses", language: str = "en", lowercase: bool = True
    ) -> None:
        super().__init__(bleu.BLEU(tokenize="none", lowercase=lowercase, smooth_method="none", force=True))
        self.tokenizer = f"moses.{language}" if tokenize == "moses" else "none"
        self.tokenize = _moses(language) if tokenize == "moses" else str

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples statistics"]:
        """Returns sacreBLEU's counts for each sentence, tokenized."""
        return super().statistics(
            [self.tokenize(each) for each in predictions],
            [[self.tokenize(each) for each in answers] for answers in references],
        )

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        """Returns a signature in sacreBLEU's form that names the tokenizer used here."""
        return super().signature(references).replace("tok:none", f"tok:{self.tokenizer}")


def _streams(references: Sequence[Sequence[str]]) -> list[tuple[Any, ...]]:
    """Returns every example's first reference, every example's second, ..., None where there is none."""
    return list(zip_longest(*references))


def _moses(language: str) -> Callable[[str], str]:
    """Returns Moses' tokenizer; it would escape some characters, which no n-gram would notice."""
    with needing("moses", "tokenize: moses of metric 'tokenized_bleu'"):
        from sacremoses import MosesTokenizer
    tokenizer = MosesTokenizer(lang=language)
    return lambda text: str(tokenizer.tokenize(text, return_str=True, escape=False))
