"""BLEU and chrF against sacreBLEU's own `corpus_score`, and tokenized BLEU against its definition."""

from math import exp, log

import numpy as np
import pytest
import sacrebleu

from plugformer.evaluation.evaluator import measure
from plugformer_plugins.metric.sacrebleu import BLEU, CHRF, TokenizedBLEU

TEXT = "The the a Man woman runs, walks ( slowly ) in on U.S. street street . ! 3.5 don't 北京"


def corpus(references: tuple[int, ...], size: int = 40) -> tuple[list[str], list[list[str]]]:
    """Returns outputs that resemble their references, so many of each in turn; one output is empty."""
    draw, words = np.random.default_rng(len(references)), TEXT.split()
    answers = [
        [" ".join(draw.choice(words, draw.integers(1, 13))) for _ in range(references[row % len(references)])]
        for row in range(size)
    ]
    outputs = [
        " ".join(word if draw.random() < 0.8 else draw.choice(words) for word in each[-1].split())
        for each in answers
    ]
    return ["", *outputs[1:]], answers


PAIRS = [
    (BLEU(), sacrebleu.BLEU()),
    (BLEU(tokenize="intl", lowercase=True), sacrebleu.BLEU(tokenize="intl", lowercase=True)),
    (BLEU(tokenize="zh"), sacrebleu.BLEU(tokenize="zh")),
    (BLEU(tokenize="char"), sacrebleu.BLEU(tokenize="char")),
    (BLEU(tokenize="none"), sacrebleu.BLEU(tokenize="none")),
    (CHRF(), sacrebleu.CHRF()),
    (CHRF(word_order=2, lowercase=True), sacrebleu.CHRF(word_order=2, lowercase=True)),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("references", [(1,), (3,), (1, 2, 4), (2, 1)])
def test_the_score_is_that_of_the_corpus(ours, theirs, references):
    outputs, answers = corpus(references)
    streams = [
        [each[number] if number < len(each) else None for each in answers]
        for number in range(max(references))
    ]
    expected = theirs.corpus_score(outputs, streams)
    found = measure(ours, outputs, answers)[0]
    assert found["value"] == pytest.approx(expected.score, rel=1e-12)
    assert found["signature"] == str(theirs.get_signature())
    assert 0 < found["low"] < found["value"] < found["high"] < 100


def test_tokenized_bleu_by_hand():
    """As multi-bleu.perl -lc counts: of 9 tokens 8 are right, of 8 pairs 6, of 7 triples 4, of 6 fours 3."""
    output, reference = "The man doesn't wear a hat .", "the man doesn't wear a red hat."
    # tokens: the man doesn 't wear a hat .       (8)
    #         the man doesn 't wear a red hat .   (9)
    precisions = [8 / 8, 6 / 7, 4 / 6, 3 / 5]
    expected = 100 * exp(1 - 9 / 8) * exp(sum(map(log, precisions)) / 4)
    assert measure(TokenizedBLEU(), [output], [[reference]])[0]["value"] == pytest.approx(expected)


def test_tokenized_bleu_is_not_smoothed():
    """Without a common sequence of four words multi-bleu.perl gives 0; sacreBLEU's smoothing does not."""
    output, reference = "a b c x d e f", "a b c y d e f"
    assert measure(TokenizedBLEU(), [output], [[reference]])[0]["value"] == 0
    assert measure(BLEU(), [output], [[reference]])[0]["value"] > 10


def test_french_apostrophes_belong_to_the_word_before():
    french, english = TokenizedBLEU(language="fr"), TokenizedBLEU(language="en")
    assert french.tokenize("l'homme") == "l' homme"
    assert english.tokenize("l'homme") == "l 'homme"
