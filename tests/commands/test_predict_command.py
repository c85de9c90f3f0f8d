"""`plugformer predict`: where texts come from, in which portions, and how answers are printed."""

import io
import json
import math
import os
import sys

import pytest

from plugformer.commands import predict
from plugformer.errors import DataError
from plugformer.evaluation.predictor import Prediction
from plugformer.runs import loading


class Echo:
    """A model that answers in capitals, refuses an exclamation mark, and notes the texts' numbers."""

    def __init__(self):
        self.numbers = []

    def predict(self, texts, *, first=0, n_best=1):
        self.numbers += range(first, first + len(texts))
        if any("!" in text for text in texts):
            raise DataError("too loud")
        ranked = [
            [Prediction(text.upper() + "~" * n, -math.log(2 + n)) for n in range(n_best)] for text in texts
        ]
        return [Prediction.of(each) for each in ranked]


@pytest.fixture(autouse=True)
def model(monkeypatch):
    model = Echo()
    monkeypatch.setattr(loading, "load", lambda path, registry, overrides: model)
    return model


def type_in(monkeypatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="latin-1"))


def test_texts_from_arguments(run):
    assert run("predict", "runs/a", "one", "two three").out == "ONE\nTWO THREE\n"
    assert run("predict", "runs/a", "--", "-1").out == "-1\n"


def test_texts_from_a_file_in_utf8_with_any_line_ends(run, tmp_path):
    (tmp_path / "texts.txt").write_bytes("\ufeffäpfel\r\n\r\n李".encode())
    assert run("predict", "runs/a", "--file", "texts.txt").out == "ÄPFEL\n\n李\n"


def test_texts_from_standard_input_in_utf8_whatever_the_locale(run, monkeypatch):
    type_in(monkeypatch, "ä\nb\n".encode())
    assert run("predict", "runs/a").out == "Ä\nB\n"


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


@pytest.mark.parametrize("setting", ["model.width=8", "evaluation.metrics=[]", "data.name=lines"])
def test_what_makes_no_difference_to_an_answer_cannot_be_set(run, setting):
    outcome = run("predict", "runs/a", "one", "--set", setting)
    assert outcome.status == 2
    key = setting.partition(".")[0]
    assert f"{key}: cannot be changed here, only decoding.*" in outcome.err


def test_no_text_gives_no_output(run, monkeypatch):
    type_in(monkeypatch, b"")
    outcome = run("predict", "runs/a")
    assert (outcome.status, outcome.out) == (0, "")


def test_bytes_that_are_not_utf8_are_named_by_line(run, monkeypatch):
    type_in(monkeypatch, b"good\nb\xe4d\n")
    outcome = run("predict", "runs/a")
    assert outcome.status == 2
    assert "standard input:2: not UTF-8: byte 0xe4" in outcome.err


def test_lines_come_as_soon_as_they_are_written():
    reader, writer = os.pipe()
    with open(reader, "rb") as stream, open(writer, "wb", buffering=0) as source:  # noqa: PTH123 (descriptors)
        portions = predict.lines(stream, "a pipe")
        source.write(b"one\ntwo\nth")
        assert next(portions) == ["one", "two"]
        source.write(b"ree\n")
        assert next(portions) == ["three"]
        source.write(b"rest")
        source.close()
        assert list(portions) == [["rest"]]


def test_a_long_file_comes_in_portions_and_keeps_every_line():
    expected = [f"line {number}" for number in range(50_000)]
    portions = list(predict.lines(io.BytesIO("\n".join(expected).encode()), "a file"))
    assert len(portions) > 1
    assert [line for portion in portions for line in portion] == expected


def test_line_numbers_go_on_over_portions():
    long = b"x" * 70_000 + b"\n"
    with pytest.raises(DataError, match=r"^a file:3: not UTF-8: byte 0xff"):
        list(predict.lines(io.BytesIO(long + long + b"\xff"), "a file"))


def test_a_terminal_is_asked_for_texts_until_it_ends(run, monkeypatch):
    answers = iter(["one", "two!", "three"])

    def ask(prompt):
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr(predict, "_is_conversation", lambda: True)
    outcome = run("predict", "runs/a")
    assert outcome.status == 0
    assert outcome.out == "ONE\nTHREE\n\n"
    assert "Error: too loud" in outcome.err
