"""An export is written only if its engine computes what the run does."""

import pytest
from tests.export.copies import Copied, Copy

from plugformer.errors import ConfigurationError, DataError
from plugformer.interfaces import Hypothesis
from plugformer.runs import TrainedModel
from plugformer_export.engine import ExportError
from plugformer_export.verification import verified


def test_other_parameters_are_found_and_nothing_is_left(exportable, tmp_path):
    with pytest.raises(ExportError, match=r"example \d+ of validation, '.*', alone: scores differ by"):
        verified(exportable(), Copy(noise=0.01), tmp_path / "out", examples=9)
    assert not list(tmp_path.iterdir())


def test_other_outputs_with_the_same_scores_are_found(exportable, tmp_path, monkeypatch):
    outputs = Copied.outputs

    def without_last(self, *of):
        return [[Hypothesis(best.tokens[:-1], best.score)] for best, *_ in outputs(self, *of)]

    monkeypatch.setattr(Copied, "outputs", without_last)
    with pytest.raises(ExportError, match=r"example \d+ of validation.*: the output is '.*', expected '.*'"):
        verified(exportable(), Copy(), tmp_path / "out", examples=9)
    assert not list(tmp_path.iterdir())


def test_padding_that_is_read_is_found(exportable, tmp_path, monkeypatch):
    logits = Copied.logits

    def reading_padding(self, batch):
        return logits(self, batch) + (~batch.source.mask).sum() * 0.01

    monkeypatch.setattr(Copied, "logits", reading_padding)
    with pytest.raises(ExportError, match=r"in a batch: scores differ"):
        verified(exportable(), Copy(), tmp_path / "out", examples=9)


def test_rounded_weights_are_bounded_by_agreement(exportable, tmp_path):
    target = Copy(compute_type="noisy", noise=1e-3)
    found = verified(exportable(), target, tmp_path / "out", examples=9)
    assert found.difference > 1e-4
    with pytest.raises(ExportError, match="of 9 outputs are equal; --agreement is 1"):
        verified(
            exportable(), Copy(compute_type="noisy", noise=0.3), tmp_path / "b", examples=9, agreement=1.0
        )
    assert not (tmp_path / "b").exists()


def test_examples_are_from_the_shortest_to_the_longest(exportable, tmp_path):
    from plugformer_export.verification import held_out

    trained = exportable()
    whole, _ = trained.read("validation")
    split, rows, name = held_out(trained, 4, None, str)
    lengths = split.lengths.sum(axis=1)
    assert name == "validation"
    assert lengths[0] == whole.lengths.sum(axis=1).min()
    assert lengths[-1] == whole.lengths.sum(axis=1).max()
    assert [split.input(n) for n in range(4)] == [whole.input(row) for row in rows]


def test_without_held_out_examples_there_is_no_export(exportable, tmp_path, monkeypatch):
    def nothing(self, *_, **__):
        raise DataError("pairs.tsv: no such file")

    monkeypatch.setattr(TrainedModel, "read", nothing)
    with pytest.raises(DataError, match=r"give others with --data FILE\n.*no such file"):
        verified(exportable(), Copy(), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_exists_is_kept(exportable, tmp_path):
    with pytest.raises(ConfigurationError, match="exists already"):
        verified(exportable(), Copy(), tmp_path)
