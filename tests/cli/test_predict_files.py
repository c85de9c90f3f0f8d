"""`predict --file --out`: columns in and out, what each row gets, and commands that are cut off."""

import csv
import gzip
import json
import math

import pyarrow
import pyarrow.parquet
import pytest
from tests.training.processes import ends, launched

import plugformer
from plugformer.errors import DataError
from plugformer_cli import predict as command
from plugformer_cli.answer_files import UnfinishedAnswers

TASK = """\
type: {type}
data: {{name: table, files: {{train: rows.jsonl, validation: rows.jsonl, test: rows.jsonl}}}}
tokenizer: characters
model: {{architecture: encoder-only, width: 16, heads: 2, layers: 1, max_length: 40, head: {head}}}
training: {{batch_size: 4, steps: 3, evaluate_every: 3, monitor: loss}}
evaluation: {{samples: 0, metrics: []}}
"""


def train_on(folder, task_type, head, rows):
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "task.yaml").write_text(TASK.format(type=task_type, head=head))
    return plugformer.train(str(folder / "task.yaml"), out=folder / "run", notify=str)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    rows = [{"text": text, "label": label} for text, label in zip("abcdef", "xyzxyz", strict=True)]
    return train_on(tmp_path_factory.mktemp("classifier"), "classification", "classifier", rows)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    tags = {"Ada": "B-PER", "Lovelace": "I-PER", "in": "O", "London": "B-LOC"}
    row = {"words": list(tags), "tags": list(tags.values())}
    return train_on(tmp_path_factory.mktemp("tagger"), "tagging", "token_classifier", [row] * 6)


@pytest.fixture(scope="module")
def similarity(tmp_path_factory):
    rows = [{"first": text, "second": text, "number": 1.0 * n} for n, text in enumerate("abcdef")]
    return train_on(tmp_path_factory.mktemp("similarity"), "similarity", "cosine", rows)


@pytest.fixture
def predict(run, monkeypatch):
    """Runs `predict` on a file in portions of three rows."""
    monkeypatch.setattr(command, "PORTION", 3)
    return lambda model, *arguments: run("predict", str(model.directory), *map(str, arguments))


ROWS = [{"id": number, "title": f"t{number}", "text": text} for number, text in enumerate("abcdefab")]


def write(file, rows=ROWS):
    names = list(rows[0])
    if file.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
        return file
    with gzip.open(file, "wt") if file.suffix == ".gz" else file.open("w") as stream:
        if ".jsonl" in file.name:
            stream.writelines(f"{json.dumps(row)}\n" for row in rows)
        else:
            separated = csv.writer(stream, delimiter="\t" if ".tsv" in file.name else ",")
            separated.writerows([names, *([row[name] for name in names] for row in rows)])
    return file


def read(file):
    if file.suffix == ".parquet":
        return pyarrow.parquet.read_table(file).to_pylist()
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as stream:
        if ".jsonl" in file.name:
            return [json.loads(line) for line in stream]
        return list(csv.DictReader(stream, delimiter="\t" if ".tsv" in file.name else ","))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("csv", "csv"), ("tsv.gz", "tsv"), ("jsonl", "csv.gz"), ("parquet", "jsonl.gz"), ("jsonl", "parquet")],
)
def test_all_columns_are_carried_through_in_order(predict, classifier, tmp_path, given, wanted):
    out = tmp_path / f"new/answers.{wanted}"
    outcome = predict(classifier, "--file", write(tmp_path / f"rows.{given}"), "--out", out)
    assert outcome.status == 0, outcome.err
    assert f"{out}: 8 rows" in outcome.err
    found = read(out)
    assert list(found[0]) == ["id", "title", "text", "prediction", "probability", "error"]
    assert [(int(row["id"]), row["title"], row["text"]) for row in found] == [
        (*row.values(),) for row in ROWS
    ]
    answers = classifier.predict([row["text"] for row in ROWS])
    assert [row["prediction"] for row in found] == [answer.output for answer in answers]
    expected = [answer.probability for answer in answers]
    assert [float(row["probability"]) for row in found] == pytest.approx(expected, abs=1e-6)
    assert not any(row["error"] for row in found)
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_a_table_without_rows_keeps_its_columns(predict, classifier, tmp_path):
    (tmp_path / "rows.csv").write_text("id,text\n")
    assert predict(classifier, "--file", "rows.csv", "--out", "out.csv").status == 0
    assert (tmp_path / "out.csv").read_text() == "id,text,prediction,probability,error\n"


def test_columns_by_other_names_and_numbers(predict, classifier, tmp_path):
    rows = [{"prediction": "p", "a": "b", "b": "c"}]
    out, file = tmp_path / "out.jsonl", write(tmp_path / "rows.csv", rows)
    assert (
        predict(classifier, "--file", file, "--column", "text=a", "--column", "text=b", "--out", out).status
        == 0
    )
    [row] = read(out)
    assert list(row)[:3] == ["input_prediction", "a", "b"]
    [answer] = classifier.predict(["b c"])
    assert row["probability"] == pytest.approx(answer.probability)
    file.write_text("x,a\ny,b\n")
    out = tmp_path / "numbers.csv"
    assert predict(classifier, "--file", file, "--no-header", "--column", "text=2", "--out", out).status == 0
    assert [row["2"] for row in read(out)] == ["a", "b"]


def test_mistakes_in_columns(predict, classifier, tmp_path):
    file = write(tmp_path / "rows.csv", [{"a": "1", "b": "2"}])
    arguments = ("--file", file, "--out", tmp_path / "out.csv")
    outcome = predict(classifier, *arguments)
    assert (
        "there is no column 'text'; expected one of ['a', 'b'], or a number; name another with --column"
        in outcome.err
    )
    assert (
        "there is no input 'txt' (did you mean 'text'?)"
        in predict(classifier, *arguments, "--column", "txt=a").err
    )
    assert "expected INPUT=COLUMN" in predict(classifier, *arguments, "--column", "text").err
    file.write_text("text\na\n", encoding="utf-16")
    assert (
        "rows.csv:1: the names of the columns are not UTF-8; convert" in predict(classifier, *arguments).err
    )
    file.write_text("text,text\na,b\n")
    assert "two columns are called 'text'" in predict(classifier, *arguments).err
    assert not (tmp_path / "out.csv").exists()
    assert "unknown ending" in predict(classifier, "--file", file, "--out", "a.xls").err


def test_an_answer_about_two_texts_needs_both(predict, similarity, tmp_path):
    file = write(tmp_path / "rows.csv", [{"first": "a", "secnd": "b"}])
    assert "there is no column 'second'" in predict(similarity, "--file", file).err
    rows = [{"first": "a", "second": "b"}, {"first": "a"}, {"second": "b"}]
    outcome = predict(similarity, "--file", write(tmp_path / "rows.jsonl", rows), "--out", "out.jsonl")
    assert outcome.status == 2
    assert [bool(row["error"]) for row in read(tmp_path / "out.jsonl")] == [False, True, True]
    for question in rows[1:]:
        with pytest.raises(DataError, match="expected first, second"):
            similarity.predict(question)
    with pytest.raises(DataError, match="found nothing, expected first, second"):
        similarity.predict({})
    assert predict(similarity, "--vectors", "a").status == 0
    assert similarity.vectors(["a"], "second").shape == (1, 16)


def test_lines_in_lines_out(predict, classifier, tmp_path):
    (tmp_path / "in.txt").write_text("a\nb\nc\nd\n")
    arguments = ("--file", "in.txt", "--n-best", 2, "--scores")
    assert predict(classifier, *arguments, "--out", "out.txt").status == 0
    assert (tmp_path / "out.txt").read_text() == predict(classifier, *arguments).out
    assert predict(classifier, "--file", "in.txt", "--out", "out.csv").status == 0
    assert list(read(tmp_path / "out.csv")[0]) == ["input", "prediction", "probability", "error"]


def test_tables_are_printed_without_out(predict, classifier, tmp_path):
    outcome = predict(classifier, "--file", write(tmp_path / "rows.csv"))
    assert outcome.out.split() == [
        answer.output for answer in classifier.predict([row["text"] for row in ROWS])
    ]


def test_alternatives_and_probabilities_of_all_classes(predict, classifier, tmp_path):
    out = tmp_path / "out.parquet"
    extras = ("--n-best", 2, "--probabilities")
    assert predict(classifier, "--file", write(tmp_path / "rows.csv"), "--out", out, *extras).status == 0
    for row in read(out):
        assert list(row["probabilities"]) == ["x", "y", "z"]
        assert sum(row["probabilities"].values()) == pytest.approx(1)
        assert (
            row["probabilities"][row["prediction"]]
            == pytest.approx(row["probability"])
            == max(row["probabilities"].values())
        )
        [other] = row["alternatives"]
        assert row["probabilities"][other["prediction"]] == pytest.approx(other["probability"])
    [line] = predict(classifier, "a", "--probabilities", "--json").out.splitlines()
    assert list(json.loads(line)["probabilities"]) == ["x", "y", "z"]
    assert "--probabilities needs --out, or --json" in predict(classifier, "a", "--probabilities").err


def test_tags_have_spans_and_probabilities_of_each_word(predict, tagger, tmp_path):
    rows = [{"words": "Ada Lovelace  in London"}, {"words": ["Ada", "in"]}]
    file = write(tmp_path / "rows.jsonl", rows)
    assert predict(tagger, "--file", file, "--out", "out.jsonl", "--probabilities").status == 0
    for asked, row in zip(rows, read(tmp_path / "out.jsonl"), strict=True):
        assert row["spans"] == tagger.experiment.task_type.spans(asked, row["prediction"])
        assert [max(each, key=each.get) for each in row["probabilities"]] == row["prediction"]
        likely = [each[tag] for each, tag in zip(row["probabilities"], row["prediction"], strict=True)]
        assert row["probability"] == pytest.approx(math.prod(likely), rel=1e-4)


def test_probabilities_are_refused_where_there_are_no_classes(predict, trained, tmp_path):
    refused = predict(plugformer.load(trained.directory), "--json", "--probabilities", "a")
    assert "a sequence-to-sequence model with head" in refused.err


def test_rows_without_an_answer_say_why_and_keep_their_place(predict, classifier, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(
        '{"text": "a"}\nno json\n{"txt": "b", "id": 3}\n{"text": 3.5}\n{"text": "'
        + "a" * 99
        + '"}\n{"text": "b"}\n'
    )
    outcome = predict(classifier, "--file", file, "--out", "out.jsonl")
    assert outcome.status == 2
    assert "4 of 6 rows had no answer; out.jsonl says why" in outcome.err
    rows = read(tmp_path / "out.jsonl")
    assert [bool(row["prediction"]) for row in rows] == [True, False, False, False, False, True]
    errors = [
        "",
        "rows.jsonl:2: not JSON",
        "rows.jsonl:3: there is no column 'text'",
        "expected text",
        "takes at most",
    ]
    assert (rows[2]["txt"], rows[2]["id"]) == ("b", 3)
    assert all(part in (row["error"] or "") for part, row in zip(errors, rows, strict=False)), rows
    assert predict(classifier, "--file", file, "--out", "out.txt", "--threshold", 1).status == 2
    assert (tmp_path / "out.txt").read_text() == "\n" * 6


def test_values_of_different_types_are_no_column_of_parquet(predict, classifier, tmp_path):
    rows = [{"text": "a", "x": 1}] * 4 + [{"text": "b", "x": "one"}]
    outcome = predict(classifier, "--file", write(tmp_path / "rows.jsonl", rows), "--out", "out.parquet")
    assert outcome.status == 2
    assert "values of different types" in outcome.err
    (tmp_path / "out.parquet.part").rename(tmp_path / "out.jsonl.part")
    resumed = predict(classifier, "--file", tmp_path / "rows.jsonl", "--out", "out.jsonl", "--resume")
    assert "5 rows are complete" in resumed.err
    assert [row["x"] for row in read(tmp_path / "out.jsonl")] == [1, 1, 1, 1, "one"]
    rows = [{"text": "a"}, {"text": "b", "more": [1]}]
    assert (
        predict(classifier, "--file", write(tmp_path / "rows.jsonl", rows), "--out", "new.parquet").status
        == 0
    )
    assert [row["more"] for row in read(tmp_path / "new.parquet")] == [None, [1]]
    assert predict(classifier, "--file", tmp_path / "rows.jsonl", "--out", "new.csv").status == 0
    assert [row["more"] for row in read(tmp_path / "new.csv")] == ["", "[1]"]


def interrupted(predict, monkeypatch, error, after, *arguments):
    """Runs a command that fails when it saves another portion; returns the outcome."""
    save = UnfinishedAnswers.save

    def fail(self, records):
        if self.rows >= after:
            with self.file.open("ab") as stream:
                stream.write(json.dumps(records[0])[:-3].encode())  # what a killed process may leave
            raise error
        save(self, records)

    with monkeypatch.context() as patch:
        patch.setattr(UnfinishedAnswers, "save", fail)
        return predict(*arguments)


def test_columns_of_parquet_keep_their_types(predict, classifier, tmp_path):
    columns = {
        "text": pyarrow.array(["a", "b"], pyarrow.large_string()),
        "error": pyarrow.array([2**64 - 1, 3], pyarrow.uint64()),
        "when": pyarrow.array([1_700_000_000_123_456_789, None], pyarrow.timestamp("ns")),
        "counts": pyarrow.array([[("a", 1)], []], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "kind": pyarrow.array(["x", "y"]).dictionary_encode(),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    outcome = predict(classifier, "--file", tmp_path / "rows.parquet", "--out", "out.parquet")
    assert outcome.status == 0, outcome.err
    found = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    for name, column in columns.items():
        kept = found["input_error" if name == "error" else name].combine_chunks()
        assert kept.equals(column), name


def test_an_integer_too_large_for_parquet(predict, classifier, tmp_path):
    file = write(tmp_path / "rows.jsonl", [{"text": "a", "id": 2**64}, {"text": "b", "id": 1}])
    outcome = predict(classifier, "--file", file, "--out", "out.parquet")
    assert outcome.status == 2
    assert "an integer too large" in outcome.err
    assert "in .jsonl instead" in outcome.err


def test_bytes_of_other_columns_stay(predict, classifier, tmp_path):
    (tmp_path / "rows.csv").write_bytes(b"text,name\na,caf\xe9\nb,\xf0\x9f\x98\x80\n")
    assert predict(classifier, "--file", tmp_path / "rows.csv", "--out", "out.csv").status == 0
    assert [line.split(b",")[1] for line in (tmp_path / "out.csv").read_bytes().splitlines()] == [
        b"name",
        b"caf\xe9",
        "\N{GRINNING FACE}".encode(),
    ]
    (tmp_path / "lone.jsonl").write_text(json.dumps({"text": "a", "name": "\ud83d"}))
    assert predict(classifier, "--file", tmp_path / "lone.jsonl", "--out", "lone.csv").status == 0
    assert b"a,?," in (tmp_path / "lone.csv").read_bytes()


@pytest.mark.parametrize("name", ["out.txt", "out.csv.gz", "out.jsonl", "out.parquet"])
def test_a_command_that_was_cut_off_continues(predict, classifier, tmp_path, monkeypatch, name):
    out, whole = tmp_path / name, tmp_path / f"whole-{name}"
    arguments = (classifier, "--file", write(tmp_path / "rows.csv"), "--n-best", 2, "--out")
    assert predict(*arguments, whole).status == 0
    outcome = interrupted(predict, monkeypatch, KeyboardInterrupt(), 6, *arguments, out)
    assert (outcome.status, outcome.err) == (
        130,
        "Interrupted. 6 rows are complete: continue with --resume\n",
    )
    assert not out.exists()
    assert "add --resume, or delete it" in predict(*arguments, out).err
    resumed = predict(*arguments, out, "--resume")
    assert resumed.status == 0, resumed.err
    assert "6 rows are complete" in resumed.err
    assert out.read_bytes() == whole.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} >= {out.name, whole.name}
    assert not [path for path in tmp_path.iterdir() if "part" in path.name]
    assert f"{out} is complete" in predict(*arguments, out, "--resume").err
    assert f"--out {out} exists" in predict(*arguments, out).err


def test_a_full_disk_is_an_error_that_keeps_what_is_complete(predict, classifier, tmp_path, monkeypatch):
    arguments = (classifier, "--file", write(tmp_path / "rows.csv"), "--out", "out.csv")
    opened = type(tmp_path).open

    def fail(self, mode="r", **options):
        stream = opened(self, mode, **options)
        if mode == "ab" and len(self.read_bytes().splitlines()) > 3:
            stream.close()
            raise OSError(28, "No space left on device")
        return stream

    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "open", fail)
        outcome = predict(*arguments)
    assert outcome.status == 2
    assert (
        "No space left on device; 3 rows are complete: make room, then continue with --resume" in outcome.err
    )
    assert predict(*arguments, "--resume").status == 0
    assert len(read(tmp_path / "out.csv")) == 8


def test_another_input_or_other_settings_are_refused(predict, classifier, tmp_path, monkeypatch):
    file = write(tmp_path / "rows.csv")
    arguments = (classifier, "--file", file, "--out", "out.csv")
    interrupted(predict, monkeypatch, KeyboardInterrupt(), 3, *arguments)
    refused = predict(*arguments, "--resume", "--n-best", 2)
    assert "was begun with another n_best\n" in refused.err
    write(file, ROWS[1:])
    assert "was begun with another --file\n" in predict(*arguments, "--resume").err
    write(file)
    assert predict(*arguments, "--resume").status == 0
    nothing = predict(classifier, "--file", file, "--out", "new.csv", "--resume")
    assert "nothing to continue: begins with the first row" in nothing.err
    assert "--resume continues a file of answers" in predict(classifier, "a", "--resume").err


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-4],  # restored from an older copy
        lambda content: content.replace(b'"output"', b"\xff", 2),
        lambda content: content + b'{"output": "x", "score": 0}',
        lambda content: content[:20],  # it ended before its first line
        lambda content: b"[]\n",
    ],
)
def test_what_is_damaged_is_answered_again(predict, classifier, tmp_path, monkeypatch, damage):
    arguments = (classifier, "--file", write(tmp_path / "rows.csv"), "--out")
    assert predict(*arguments, "whole.csv").status == 0
    interrupted(predict, monkeypatch, KeyboardInterrupt(), 3, *arguments, "out.csv")
    begun = tmp_path / "out.csv.part"
    begun.write_bytes(damage(begun.read_bytes()))
    outcome = predict(*arguments, "out.csv", "--resume")
    assert outcome.status == 0, outcome.err
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_complete_file_whose_rows_have_no_answer_has_the_same_status_again(
    predict, classifier, tmp_path, monkeypatch
):
    rows = [*ROWS, {"text": "a" * 300}]
    arguments = (classifier, "--file", write(tmp_path / "rows.jsonl", rows), "--out", "out.csv", "--resume")
    for _ in range(3):
        outcome = predict(*arguments)
        assert outcome.status == 2
        assert f"1 of {len(rows)} rows had no answer" in outcome.err
    assert "out.csv is complete; delete it" in outcome.err
    outcome = predict(*arguments, "--probabilities")
    assert "was begun with another probabilities" in outcome.err
    (tmp_path / "out.csv").unlink()
    (tmp_path / "out.csv.part").unlink()
    assert interrupted(predict, monkeypatch, KeyboardInterrupt(), 0, *arguments).status == 130
    assert predict(*arguments).status == 2
    assert len(read(tmp_path / "out.csv")) == len(rows)


SHARED = """
import sys
from plugformer_cli import main, predict
predict.PORTION = 3
main.main(sys.argv[1:])
"""


def test_several_processes_write_the_same_file(predict, classifier, tmp_path):
    arguments = ["--file", str(write(tmp_path / "rows.csv")), "--out"]
    assert predict(classifier, *arguments, "alone.csv").status == 0
    command = ["-c", SHARED, "predict", str(classifier.directory), *arguments, "shared.csv"]
    with launched(2, *command) as processes:
        ended = ends(processes)
    assert [each.status for each in ended] == [0, 0], ended
    assert sum("8 rows" in each.messages for each in ended) == 1
    assert (tmp_path / "shared.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()


def test_columns_keep_apart_whatever_their_names(predict, classifier, tmp_path):
    file, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    file.write_text("text,prediction,input_prediction\na,b,c\n")
    assert predict(classifier, "--file", file, "--out", out).status == 0
    (row,) = read(out)
    assert {row["text"], row["input_input_prediction"], row["input_prediction"]} == {"a", "b", "c"}
