"""BLEU of tokenized text, as papers before sacreBLEU report it."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from jaxtyping import Float
from numpy import ndarray
from pydantic import Field
from sacrebleu.metrics import bleu

from plugformer.errors import needing
from plugformer_plugins.metric.sacrebleu_score import SacreBLEUScore


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
        self,
        *,
        tokenize: Annotated[
            Literal["moses", "none"],
            Field(description="moses, or none for texts that are tokenized already."),
        ] = "moses",
        language: Annotated[str, Field(description="Language whose rules Moses uses, as en or fr.")] = "en",
        lowercase: Annotated[bool, Field(description="Ignore letter case.")] = True,
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


def _moses(language: str) -> Callable[[str], str]:
    """Returns Moses' tokenizer; it would escape some characters, which no n-gram would notice."""
    with needing("moses", "tokenize: moses of metric 'tokenized_bleu'"):
        from sacremoses import MosesTokenizer
    tokenizer = MosesTokenizer(lang=language)
    return lambda text: str(tokenizer.tokenize(text, return_str=True, escape=False))
