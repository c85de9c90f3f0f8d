"""Columns that examples may lack: which data have them, and what a task type receives."""

import csv

import pytest
from tests.columns import with_kinds
from tests.data.test_table import REGISTRY, load, written

import plugformer
from plugformer.errors import ExampleError
from plugformer.interfaces import Column
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence

SMALL = {"architecture": "encoder-decoder", "head": "language_model", "layers": 1, "width": 16, "heads": 2}
TASK = {
    "type": "weighted",
    "tokenizer": "characters",
    "model": SMALL,
    "training": {"steps": 2},
    "evaluation": {"metrics": []},
}
ROWS = [
    {"source": word, "target": word[::-1], "weight": number / 4} for number, word in enumerate("abcdefgh")
]


class Weighted(SequenceToSequence):
    """Examples that may have a weight, which a hook reads."""

    columns = (
        Column("source", "text", "input", tokenizer="source"),
        Column("weight", "number", "input", optional=True),
        Column("hint", "text", "input", tokenizer="source", optional=True),
        Column("target", "text", "output", tokenizer="target"),
        Column("references", "texts", "output", optional=True),
    )

    def encode(self, examples, tokenizers):
        """Returns the tokens of sources, with a mark at those without a weight."""
        marks = ["" if weight is None else "!" * round(weight) for weight in examples["weight"]]
        assert len(examples["hint"]) == len(marks)
        marked = [f"{source}{mark}" for source, mark in zip(examples["source"], marks, strict=True)]
        return super().encode({**examples, "source": marked}, tokenizers)


class Choosy(Weighted):
    """Refuses a question."""

    def encode(self, examples, tokenizers):
        """Returns the tokens of sources, none of them a "z"."""
        if "z" in examples["source"]:
            raise ExampleError(examples["source"].index("z"), "no z is allowed")
        return super().encode(examples, tokenizers)


def without(rows, name="weight"):
    return [{key: value for key, value in row.items() if key != name} for row in rows]


def train(folder, data=None, files=None):
    components = {"task_type": {"weighted": Weighted}}
    splits = data and {"train": data, "validation": data[:4], "test": without(data[:4])}
    task = {**TASK, "data": {"name": "table", "files": files}} if files else TASK
    return plugformer.train(task, data=splits, components=components, out=folder / "run", notify=str)


def test_a_question_that_its_type_refuses_is_one_answer_alone(tmp_path):
    task = {**TASK, "type": "choosy"}
    components = {"task_type": {"choosy": Choosy}}
    splits = {"train": ROWS, "validation": ROWS[:4], "test": ROWS[:4]}
    trained = plugformer.train(task, data=splits, components=components, out=tmp_path / "run", notify=str)
    asked = [{"source": text, "weight": 1.0} for text in ("a", "z", "b", "z")]
    first, refused, other, again = trained.predict_each(asked)
    assert [first.output, other.output] == [trained.predict(asked[at]).output for at in (0, 2)]
    assert str(refused) == "text 2: no z is allowed" and str(again) == "text 4: no z is allowed"


@pytest.mark.parametrize("table", [False, True])
def test_an_optional_input_is_read_where_the_data_have_it(tmp_path, table):
    if table:
        for name, rows in (("rows.csv", ROWS), ("test.csv", without(ROWS))):
            with (tmp_path / name).open("w") as stream:
                writer = csv.DictWriter(stream, rows[0])
                writer.writeheader()
                writer.writerows(rows)
        file = str(tmp_path / "rows.csv")
        files = {"train": file, "validation": file, "test": str(tmp_path / "test.csv")}
        model = train(tmp_path, files=files)
    else:
        model = train(tmp_path, ROWS)
    validation, _ = model.read("validation")
    assert validation.batch([1, 2]).asked(1) == {"source": "c", "weight": 0.5}
    assert validation.input(1) == "b\t0.25"
    test, _ = model.read("test")
    assert test.batch([1]).asked(0) == {"source": "b"}
    assert test.input(1) == "b"


def test_an_optional_input_may_be_missing(tmp_path):
    model = train(tmp_path, without(ROWS))
    assert model.predict("ab") == model.predict({"source": "ab"})


def test_a_question_without_an_optional_input_is_answered_alike_among_others(tmp_path):
    model = train(tmp_path, ROWS)
    questions = [{"source": "ab"}, {"source": "ab", "weight": 3}, {"source": "ab", "hint": "a"}]
    split = model.questions(questions)
    assert split.lengths[:, 0].tolist() == [3, 6, 3]  # with END
    assert split.batch(range(3)).asked(0) == {"source": "ab"}
    assert [answer.output for answer in model.predict_each(questions)] == [
        model.predict(question).output for question in questions
    ]


def test_an_optional_output_is_read_if_columns_name_it(tmp_path):
    file = written(tmp_path, "rows.jsonl", '{"source": "a", "target": "b", "references": ["c", "d"]}\n')
    columns = with_kinds(Weighted.columns)
    assert set(load(columns, {"train": file})["train"].column_names) == {"source", "target"}
    named = {"source": "source", "target": "target", "references": "references"}
    assert load(columns, {"train": file}, columns=named)["train"]["references"][:] == [["c", "d"]]


def test_streams_have_them_too(tmp_path):
    file = written(tmp_path, "rows.jsonl", '{"source": "a", "target": "b", "weight": 2}\n')
    stream = REGISTRY.create("data", "table", files={"train": file}).stream(with_kinds(Weighted.columns))
    assert next(iter(stream["train"]))["weight"] == 2
