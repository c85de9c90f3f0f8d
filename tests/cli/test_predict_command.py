"""`plugformer predict`: where texts come from, in which portions, and how answers are printed."""

import io
import json
import math
import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from plugformer.errors import DataError
from plugformer.interfaces import Prediction
from plugformer_cli import questions
from plugformer_plugins.task_type.pairs import Retrieval
from plugformer_plugins.task_type.regression import Regression


class Echo:
    """A model that answers in capitals; it knows no comma, refuses `!` and reads 30 characters."""

    device = torch.device("cpu")

    def __init__(self):
        self.numbers = []

    def predict_each(self, texts, *, first=0, n_best=1, probabilities=False):
        self.numbers += range(first, first + len(texts))
        return [self.answer(text, n_best) for text in texts]

    experiment = SimpleNamespace(task_type=Retrieval())

    def vectors(self, texts, name=""):
        """Returns for each text how often it has a, b and c; the second input counts double."""
        if "!" in "".join(texts):
            raise DataError("too loud")
        counts = torch.tensor([[text.count(letter) for letter in "abc"] for text in texts])
        return counts.float() * (2 if name == "second" else 1)

    def answer(self, text, n_best):
        if "!" in text:
            return DataError("too loud")
        ranked = [Prediction(text[:30].upper() + "~" * n, -math.log(2 + n)) for n in range(n_best)]
        unknown = (",",) if "," in text else ()
        return replace(Prediction.of(ranked), truncated=len(text) > 30, unknown=unknown)


@pytest.fixture(autouse=True)
def model(monkeypatch):
    model = Echo()
    monkeypatch.setattr("plugformer.load", lambda path, registry, **_: model)
    return model


def type_in(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="latin-1"))


def test_texts_from_arguments(run):
    assert run("predict", "runs/a", "one", "two three").out == "ONE\nTWO THREE\n"
    assert run("predict", "runs/a", "--", "-1").out == "-1\n"


def test_vectors_of_texts(run):
    assert run("predict", "runs/a", "--vectors", "abba", "c").out == "2 2 0\n0 0 1\n"
    record = json.loads(run("predict", "runs/a", "--vectors", "--input", "second", "--json", "ab").out)
    assert record == {"input": "ab", "output": [2.0, 2.0, 0.0], "score": None}


def test_the_nearest_of_some_texts(run, model, monkeypatch, tmp_path):
    (tmp_path / "texts.txt").write_text("aa\n\nab\ncc\naa\n \n")
    among = ("predict", "runs/a", "--among", "texts.txt")
    assert run(*among, "a", "c").out == "aa\ncc\n"
    assert run(*among, "a", "--n-best", "2").out == "aa\nab\n"
    assert run(*among, "a", "--n-best", "9").out == "aa\nab\ncc\n"
    (tmp_path / "blank.txt").write_text("\n \n")
    assert "blank.txt has no text" in run(*among[:3], "blank.txt", "a").err
    (tmp_path / "texts.csv").write_text("text\naa\n")
    assert "texts.csv is a table; write its texts" in run(*among[:3], "texts.csv", "a").err
    loud = run(*among, "a", "!", "c")
    assert (loud.status, loud.out) == (2, "aa\n\ncc\n")
    assert "text 2: no answer: too loud" in loud.err
    assert "--among and --vectors" in run(*among, "--vectors", "a").err
    monkeypatch.setattr(model, "experiment", SimpleNamespace(task_type=Regression()))
    assert "--among: this model finds no texts" in run(*among, "a").err


def test_json_lines_are_examples(run, model, monkeypatch):
    monkeypatch.setattr(model, "answer", lambda example, _: Prediction(" ".join(example["words"])))
    texts = ['{"words": ["a", "b"]}', "x", "[1]", '{"words": ["c"]}']
    found = run("predict", "runs/a", "--json-lines", *texts)
    assert (found.status, found.out) == (2, "a b\n\n\nc\n")
    assert "text 2: no answer: 'x' is no JSON" in found.err
    assert "text 3: no answer: '[1]' is no object" in found.err
    assert (
        "--json-lines and --vectors exclude" in run("predict", "runs/a", "--json-lines", "--vectors", "a").err
    )


def test_texts_from_a_file_in_utf8_with_any_line_ends(run, tmp_path):
    (tmp_path / "texts.txt").write_bytes("\ufeffäpfel\r\n\r\n李".encode())
    assert run("predict", "runs/a", "--file", "texts.txt").out == "ÄPFEL\n\n李\n"


def test_texts_are_numbered_through_all_portions(run, model, tmp_path):
    (tmp_path / "texts.txt").write_text("some words\n" * 20_000)
    run("predict", "runs/a", "--file", "texts.txt")
    assert model.numbers == list(range(20_000))


def test_json_is_one_record_on_each_line(run):
    [line] = run("predict", "runs/a", "李", "--json").out.splitlines()
    assert "李" in line
    assert json.loads(line) == {"input": "李", "output": "李", "score": pytest.approx(-0.693, abs=1e-3)}


def test_several_outputs_for_each_text(run):
    assert run("predict", "runs/a", "one", "two", "--n-best", "2").out == "ONE\nONE~\nTWO\nTWO~\n"
    [line] = run("predict", "runs/a", "one", "--n-best", "3", "--json").out.splitlines()
    alternatives = [
        {"output": "ONE~", "score": pytest.approx(-math.log(3))},
        {"output": "ONE~~", "score": pytest.approx(-math.log(4))},
    ]
    score = pytest.approx(-math.log(2))
    assert json.loads(line) == {"input": "one", "output": "ONE", "score": score, "alternatives": alternatives}


def test_a_text_without_an_answer_leaves_an_empty_line_and_does_not_end_the_others(run, monkeypatch):
    type_in(monkeypatch, "ä\ntwo!\nthree\n".encode())
    outcome = run("predict", "runs/a")
    assert outcome.out == "Ä\n\nTHREE\n"
    assert outcome.err.splitlines() == [
        "text 2: no answer: too loud",
        "Error: 1 of 3 texts had no answer; correct those above",
    ]
    assert outcome.status == 2
    outcome = run("predict", "runs/a", "one!", "--n-best", "2")
    assert (outcome.status, outcome.out) == (2, "\n\n")
    assert outcome.err == "text 1: no answer: too loud\nError: it had no answer; correct it\n"


def test_what_was_cut_or_unknown_or_empty_is_noted(run):
    outcome = run("predict", "runs/a", "a, b", "c" * 31, "", "d", " ")
    assert (outcome.status, outcome.out) == (0, f"A, B\n{'C' * 30}\n\nD\n \n")
    assert outcome.err.splitlines() == [
        "text 1: unknown: ','",
        "text 2: is too long: only its beginning was read",
        "text 3: is empty",
        "text 5: is empty",
    ]
    first, second, *_ = map(json.loads, run("predict", "runs/a", "a,", "c" * 31, "--json").out.splitlines())
    assert first["unknown"] == [","]
    assert second["truncated"] is True


def test_scores_are_probabilities(run):
    assert run("predict", "runs/a", "one", "--n-best", "2", "--scores").out == "0.5\tONE\n0.3333\tONE~\n"


def test_outputs_below_the_threshold_are_left_out(run):
    outcome = run("predict", "runs/a", "one", "--n-best", "2", "--threshold", "0.4")
    assert (outcome.status, outcome.out, outcome.err) == (0, "ONE\n\n", "")
    outcome = run("predict", "runs/a", "one", "--threshold", "0.6")
    assert (outcome.status, outcome.out) == (0, "\n")
    assert outcome.err == "text 1: no answer: its probability 0.5 is below 0.6\n"
    record = json.loads(run("predict", "runs/a", "one", "--threshold", "0.6", "--json").out)
    assert record == {
        "input": "one",
        "output": None,
        "score": pytest.approx(-math.log(2)),
        "error": "its probability 0.5 is below 0.6",
    }


def test_lines_come_as_soon_as_they_are_written():
    reader, writer = os.pipe()
    with open(reader, "rb") as stream, open(writer, "wb", buffering=0) as source:  # noqa: PTH123 (descriptors)
        portions = questions.arriving(stream, str, 9)
        source.write(b"one\ntwo\nth")
        assert next(portions) == ["one", "two"]
        source.write(b"ree\n")
        assert next(portions) == ["three"]
        source.write(b"rest")
        source.close()
        assert list(portions) == [["rest"]]


def test_an_answer_takes_one_line(run, monkeypatch):
    monkeypatch.setattr(Echo, "answer", lambda self, text, n_best: Prediction(text.replace("/", "\r\n"), 0.0))
    assert run("predict", "runs/a", "one/two").out == "one two\n"
    assert json.loads(run("predict", "runs/a", "one/two", "--json").out)["output"] == "one\r\ntwo"
