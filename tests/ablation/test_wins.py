"""On how many examples an arm is better and worse, with counts by hand."""

import numpy as np
import pytest

from plugformer.registry import Kind, Registry
from plugformer_ablation.judging.results import CellResult
from plugformer_ablation.judging.wins import wins


def cells(name, *seeds):
    rows = [np.array(each, dtype=float) for each in seeds]
    rows = [each if each.ndim == 2 else each[:, None] for each in rows]
    return [CellResult("arm", seed, statistics={name: each}) for seed, each in enumerate(rows, 1)]


def metric(name):
    return Registry.discover().create(Kind.METRIC, name)


def test_examples_are_counted_by_their_means_over_the_common_seeds():
    arm = cells("exact_match", [1, 0, 1, 0], [1, 0, 0, 1])  # means 1, 0, 0.5, 0.5
    baseline = cells("exact_match", [0, 1, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1])  # 0.5, 1, 0.5, 0.5
    found = wins(arm, baseline, "exact_match", metric("exact_match"))
    assert found == {"better": 1, "worse": 1, "same": 2}


def test_lower_perplexity_of_an_example_is_better():
    perplexity = metric("perplexity")
    rows = perplexity.statistics(np.log([0.5, 0.5, 0.5]), np.array([1, 1, 1]), np.array([1, 1, 1]))
    ours = perplexity.statistics(np.log([0.9, 0.5, 0.1]), np.array([1, 1, 1]), np.array([1, 1, 1]))
    found = wins(cells("perplexity", ours), cells("perplexity", rows), "perplexity", perplexity)
    assert found == {"better": 1, "worse": 1, "same": 1}


def test_a_metric_of_which_examples_have_no_score_counts_none():
    bleu = metric("bleu")
    rows = bleu.statistics(["a b c d e", "a b x y z q"], [["a b c d e"], ["a b c d e f"]])
    assert wins(cells("bleu", rows), cells("bleu", rows), "bleu", bleu) is None


@pytest.mark.parametrize("other", [[], [[1, 0, 1]]], ids=["no seed", "other examples"])
def test_what_cannot_be_paired_counts_none(other):
    mine = cells("exact_match", [1, 0])
    assert wins(mine, cells("exact_match", *other), "exact_match", metric("exact_match")) is None
