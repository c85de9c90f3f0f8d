"""Metrics of tags, labels and numbers, against hand-counted cases and SciPy."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from plugformer.errors import DataError
from plugformer_plugins.metric.accuracy import TagAccuracy
from plugformer_plugins.metric.f1 import SCHEMES, EntityF1, LabelF1
from plugformer_plugins.metric.likelihood import BitsPerByte, BitsPerCharacter
from plugformer_plugins.metric.regression import (
    MeanAbsoluteError,
    Pearson,
    RootMeanSquaredError,
    Spearman,
)


def score(metric, *pairs):
    """Returns the score of pairs of an answer and the right one."""
    answers, right = zip(*pairs, strict=True)
    return metric.aggregate(metric.statistics(answers, [[each] for each in right]))


SEQEVAL = json.loads(Path(__file__).with_name("seqeval_entities.json").read_text(encoding="utf-8"))
"""Random tags with the entities that seqeval 1.2.2 finds in them, in its strict mode."""

RENAMED = {"BIO": ("IOB2", ""), "BIOES": ("IOBES", ""), "BMES": ("IOBES", "IM"), "BMEWO": ("IOBES", "IMSW")}
"""Schemes that seqeval lacks: another one, and pairs of a mark of that and their own."""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_entities_are_those_of_seqeval(scheme):
    theirs, marks = RENAMED.get(scheme, (scheme, ""))
    metric, renamed = EntityF1(scheme=scheme), dict(zip(marks[::2], marks[1::2], strict=True))
    for text, entities in SEQEVAL[theirs]:
        tags = [renamed.get(tag[0], tag[0]) + tag[1:] for tag in text.split()]
        if theirs == "IOB1" and re.search(r"B-A B-B|B-B B-A", text):
            continue  # nobody writes it, and seqeval drops the first though it keeps the one of "I-A B-B"
        assert metric.found(tags) == {tuple(entity) for entity in entities}, tags


@pytest.mark.parametrize(
    ("scheme", "tag"), [("IOB2", "NOUN"), ("IOB2", "S-PER"), ("IOB2", "B-"), ("IOBES", "L-PER")]
)
def test_tags_of_no_scheme_are_refused(scheme, tag):
    with pytest.raises(DataError, match=rf"tag '{tag}' is none of the scheme {scheme}, expected O, B-TYPE"):
        EntityF1(scheme=scheme).found(["O", tag])


@pytest.mark.parametrize(
    ("scheme", "right"),
    [
        ("IOB2", "I-PER I-PER O I-LOC B-LOC"),  # IOB1
        ("IOBES", "B-PER I-PER O B-LOC"),  # IOB2
    ],
)
def test_right_tags_of_another_scheme_are_refused(scheme, right):
    metric, tags = EntityF1(scheme=scheme), right.split()
    with pytest.raises(DataError, match=rf"tags other than O, \d are in no entity of the scheme {scheme}"):
        metric.statistics([tags], [[tags]])
    metric.statistics([tags], [["O"] * len(tags)])  # a model may predict what it likes


def test_a_mistake_among_right_tags_is_passed_over():
    tags = ["I-PER", "O", "B-LOC", "I-LOC"]
    assert EntityF1().statistics([tags], [[tags]]).tolist() == [[1, 1, 1]]


def test_tag_accuracy_counts_words():
    pairs = [(["A", "B"], ["A", "B"]), (["A"], ["B"]), (["A", "A", "A"], ["A", "A", "B"])]
    assert score(TagAccuracy(), *pairs) == pytest.approx(4 / 6)


def test_micro_f1_by_hand():
    pairs = [(["a", "b"], ["a"]), ([], ["c"]), ([], [])]  # 1 hit of 2 found and 2 right
    assert score(LabelF1(), *pairs) == pytest.approx(0.5)
    assert score(LabelF1(), ([], [])) == 1


@pytest.mark.parametrize(("metric", "peer"), [(Pearson, pearsonr), (Spearman, spearmanr)])
def test_correlations_are_those_of_scipy(metric, peer):
    draw = np.random.default_rng(1)
    right = draw.normal(size=40).round(1)  # with ties
    given = (right + draw.normal(size=40)).round(1)
    found = score(metric(), *zip(given.tolist(), right.tolist(), strict=True))
    assert found == pytest.approx(peer(given, right).statistic)
    for given, right in [((1.0, 1.0), (2.0, 3.0)), ((0.1,) * 3, (0.7,) * 3)]:  # of 0.1 the mean is another
        assert score(metric(), *zip(given, right, strict=True)) == 0  # not defined


def test_errors_of_lists_count_each_number():
    pairs = ([1.0, 3.0, 0.0], [0.0, 0.0, 0.0]), ([], []), ([2.0], [4.0, -6.0])
    assert score(MeanAbsoluteError(), *pairs) == (1 + 3 + 0 + 2 + 6) / 5
    assert score(RootMeanSquaredError(), *pairs) == ((1 + 9 + 0 + 4 + 36) / 5) ** 0.5


def test_bits_are_logarithms_to_base_two():
    statistics = BitsPerCharacter().statistics(
        np.array([-8 * math.log(2), -4 * math.log(2)]), np.array([4, 2]), np.array([0, 0])
    )
    assert BitsPerCharacter().aggregate(statistics) == pytest.approx(2)
    assert (BitsPerCharacter.unit, BitsPerByte.unit) == ("characters", "bytes")
