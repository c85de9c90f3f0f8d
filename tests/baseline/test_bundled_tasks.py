"""The baselines of tasks, measured on the splits as a model is."""

from itertools import pairwise

import numpy as np
import pytest

from plugformer.configuration import resolve
from plugformer.data.preparation import prepare
from plugformer.evaluation import Report
from plugformer.evaluation.baselines import measure_baselines
from plugformer.experiment import Experiment
from plugformer.interfaces import END


def measured(path, registry, task, *settings):
    """Returns the scores of a task's baselines on the test split, and the split."""
    experiment = Experiment.from_resolved(resolve(task, settings, registry))
    data, said = prepare(experiment), []
    split = data.splits["test"]
    found = measure_baselines(
        experiment, data, {"test": Report(path, "test", {}, 1, 0.0, encoded=split)}, said.append
    )
    assert not said
    return found["test"], split


@pytest.mark.parametrize("architecture", ["encoder-decoder", "decoder-only"])
def test_copying_is_solved_by_copying(tmp_path, registry, architecture):
    settings = ("data.size=200", "data.held_out=40", f"model.architecture={architecture}")
    found, split = measured(tmp_path, registry, "copying", *settings)
    scores = {
        name: {metric: score["value"] for metric, score in each.metrics.items()}
        for name, each in found.items()
    }
    assert list(scores) == ["copy", "nearest_neighbour", "ngrams"]
    assert scores["copy"] == {"exact_match": 1.0}
    assert scores["nearest_neighbour"]["exact_match"] < 0.1
    assert 5 < scores["ngrams"]["perplexity"] < 30
    sequences = split.sequences(range(len(split)))
    assert all(sequence[-1] == END for sequence in sequences)
    assert sum(map(len, sequences)) == sum(
        len(split.example(row)["target"].split()) + 2 for row in range(len(split))
    )


def test_pieces_of_packed_texts_hold_each_token_once(tmp_path, registry):
    settings = ("data.size=100", "data.held_out=40", "model.max_length=16")
    found, split = measured(tmp_path, registry, "brackets", *settings)
    metrics = found["ngrams"].metrics
    assert 1.0 < metrics["bits_per_character"]["value"] < metrics["perplexity"]["value"] < 10
    sequences = split.sequences(range(len(split)))
    assert np.concatenate([sequence[1:] for sequence in sequences])[-1] == END
    for before, after in pairwise(sequences):
        assert before[-1] == after[0]


def test_words_that_the_model_does_not_read_are_not_tagged(tmp_path, registry):
    settings = ("data.size=100", "data.held_out=40", "data.length={max: 4, over: truncate}")
    found, _ = measured(tmp_path, registry, "names", *settings)
    assert 0.5 < found["frequent_tag"].metrics["tag_accuracy"]["value"] <= 1
