"""BLEU and chrF, computed by sacreBLEU."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from pydantic import Field

from plugformer.errors import needing
from plugformer.interfaces import OutputMetric

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as Scorer


class SacreBLEUScore(OutputMetric):
    """A corpus score between 0 and 100, all counts taken by sacreBLEU.

    Its `corpus_score` adds up the statistics of sentences and computes a score from the sum, in two methods.
    This class calls them one by one, as its own significance tests do: a resample costs no counting.

    Args:
        scorer: Which metric of sacreBLEU, "BLEU" or "CHRF".
        options: What its constructor takes.

    Raises:
        ConfigurationError: sacreBLEU is not installed.
    """

    def __init__(self, scorer: Literal["BLEU", "CHRF"], **options: Any) -> None:
        with needing("translation", "a metric of sacreBLEU"):
            from sacrebleu import metrics
        self.scorer: Scorer = getattr(metrics, scorer)(**options)

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples statistics"]:
        """Returns sacreBLEU's counts for each sentence."""
        return np.array(
            self.scorer._extract_corpus_statistics(predictions, [*zip_longest(*references)]), dtype=float
        )

    def aggregate(self, statistics: Float[ndarray, "examples statistics"]) -> float:
        """Returns the score of the whole corpus, not a mean over sentences."""
        total = statistics.sum(axis=0).astype(int).tolist()
        return float(self.scorer._compute_score_from_stats(total).score)

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        """Returns sacreBLEU's signature: number of references, options and version."""
        numbers = {len(answers): [""] * len(answers) for answers in references}
        self.scorer.corpus_score([""] * len(numbers), [*zip_longest(*numbers.values())])
        return str(self.scorer.get_signature())


class BLEU(SacreBLEUScore):
    """BLEU as sacreBLEU computes it, from plain text, with its signature.

    Bilingual evaluation understudy, between 0 and 100: n-grams up to 4, smoothed exponentially.

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
        super().__init__("BLEU", tokenize=tokenize, lowercase=lowercase, force=True)


class CHRF(SacreBLEUScore):
    """F-score of character n-grams (chrF), with word n-grams chrF++; by sacreBLEU, with its signature.

    F-score of character n-grams up to 6, between 0 and 100, recall counting twice as much as precision.

    Popović (2015), https://aclanthology.org/W15-3049; with words, Popović (2017),
    https://aclanthology.org/W17-4770. Computed by sacreBLEU.

    Args:
        word_order: Length of the longest word n-grams: 0 is chrF, 2 is chrF++.
        lowercase: Whether letter case is ignored.
    """

    def __init__(self, *, word_order: Annotated[int, Field(ge=0)] = 0, lowercase: bool = False) -> None:
        super().__init__("CHRF", word_order=word_order, lowercase=lowercase)


class TokenizedBLEU(SacreBLEUScore):
    """Lower-cased BLEU of Moses' tokens without smoothing, as multi-bleu.perl; for older papers.

    BLEU between 0 and 100 of words that Moses would cut, to be compared with older papers alone.

    Equals Moses' `multi-bleu.perl -lc` (without `lowercase`: `multi-bleu.perl`) on outputs and references
    that went through `tokenizer.perl -l LANGUAGE`: n-grams up to 4, no smoothing, the closest reference
    length. The tokenizer is sacremoses', a port of that script. Koehn et al. (2007),
    https://aclanthology.org/P07-2045. What to report is `bleu`.

    Args:
        tokenize: Who cuts both sides into words; with none they are tokenized already.
        language: Whose rules Moses uses, such as those for apostrophes and abbreviations.
        lowercase: Whether letter case is ignored.

    Raises:
        ConfigurationError: sacremoses is not installed, and is to tokenize.
    """

    def __init__(
        self, *, tokenize: Literal["moses", "none"] = "moses", language: str = "en", lowercase: bool = True
    ) -> None:
        super().__init__("BLEU", tokenize="none", lowercase=lowercase, smooth_method="none", force=True)
        self.tokenizer = "none"
        self.tokenize: Callable[[str], str] = str
        if tokenize == "moses":
            with needing("moses", "tokenize: moses of metric 'tokenized_bleu'"):
                from sacremoses import MosesTokenizer
            self.tokenizer = f"moses.{language}"
            # Escaping some characters, as it would, is nothing that an n-gram notices.
            self.tokenize = partial(MosesTokenizer(lang=language).tokenize, return_str=True, escape=False)

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[ndarray, "examples statistics"]:
        """Returns sacreBLEU's counts for each sentence, tokenized."""
        answers = [[self.tokenize(text) for text in texts] for texts in references]
        return super().statistics([self.tokenize(text) for text in predictions], answers)

    def signature(self, references: Sequence[Sequence[str]]) -> str:
        """Returns a signature in sacreBLEU's form that names the tokenizer used here."""
        return super().signature(references).replace("tok:none", f"tok:{self.tokenizer}")
