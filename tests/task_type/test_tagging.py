"""Tagging: which tokens are labeled, what is cut, and what is refused."""

import json

import pytest
from tests.pieces import Pieces

from plugformer.configuration import resolve
from plugformer.configuration.resolving import check_components
from plugformer.data.preparation import prepare
from plugformer.data.processor import Inputs
from plugformer.evaluation.predictor import Predictor
from plugformer.experiment import Experiment
from plugformer.interfaces import ABSENT, UNKNOWN, Tokenizers
from plugformer.model import build
from plugformer_plugins.task_type.tagging import Tagging
from plugformer_plugins.tokenizer.word_level import Words


@pytest.fixture
def tagging():
    task_type = Tagging()
    task_type.state = ["DET", "NOUN"]
    return task_type


@pytest.fixture
def tokenizers():
    """Of pieces of three characters."""
    pieces = Pieces(["the foxtrot"])
    return Tokenizers(pieces, pieces)


def test_a_word_is_labeled_at_its_first_token(tagging, tokenizers):
    encoded = tagging.encode({"words": [["the", "foxtrot"]], "tags": [["DET", "NOUN"]]}, tokenizers)
    (spelled,) = (tokenizers.source.tokens(row) for row in encoded["input"])
    assert spelled == [" ", "the", " ", "fox", "tro", "t"]  # as in the text, which the tokenizer has learned
    assert encoded["targets"] == [[0, None, 1, None, None, None]]


def test_a_word_without_tokens_is_unknown(tagging):
    words = Words()
    words.train(["the foxtrot"])
    encoded = tagging.encode({"words": [["", "the"]], "tags": [["DET", "NOUN"]]}, Tokenizers(words, words))
    assert encoded["input"][0][0] == UNKNOWN
    assert encoded["targets"] == [[0, 1]]


TASK = """\
type: tagging
data:
  name: table
  files: {{train: tagged.jsonl, validation: tagged.jsonl, test: tagged.jsonl}}
  length: {{over: {over}, max: {longest}}}
tokenizer: characters
model: {{architecture: encoder-only, width: 16, heads: 2, layers: 1, head: token_classifier}}
"""
WORDS = ["the", "slow", "foxtrot", "goes", "on"]
"""Of 4, 5, 8, 5 and 3 characters with the spaces before them."""

TAGS = ["D", "A", "N", "V", "P"]


@pytest.fixture
def task(tmp_path, registry):
    """Makes a task with two sentences, of five words and of one."""
    rows = [{"words": WORDS, "tags": TAGS}, {"words": ["on"], "tags": ["P"]}]
    (tmp_path / "tagged.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def make(over, longest):
        (tmp_path / "task.yaml").write_text(TASK.format(over=over, longest=longest))
        return check_components(resolve(str(tmp_path / "task.yaml"), registry=registry)).task

    return make


@pytest.mark.parametrize(
    ("longest", "kept"), [(25, 5), (24, 5), (22, 4), (17, 3), (12, 3), (10, 3), (9, 2), (1, 1)]
)
def test_words_and_tags_are_cut_together(task, registry, longest, kept):
    """A word whose first token is kept keeps its tag: also where the cut goes through it."""
    truncating = task("truncate", longest)
    experiment = Experiment.of(truncating, registry)
    data = prepare(experiment)
    split = data.splits["test"]
    batch = split.batch([0])
    assert batch.source.mask.sum() == min(longest, 25) + 2  # and BEGIN and END
    labeled = batch.targets[0][batch.targets[0] != ABSENT]
    assert [data.processor.task_type.state[each] for each in labeled] == TAGS[:kept]
    assert split.references(0) == [TAGS[:kept]]
    assert data.lengths["test"].truncated == (longest < 25) + (longest < 3)

    model = build(experiment.spec, data.processor.sizes)
    reader = Predictor(model, data.processor, 1000)
    assert [len(answer.output) for answer in reader.predict(split)] == [kept, 1]
    asked = Inputs.of([" ".join(WORDS), "on"], experiment, data.processor)
    assert asked.truncated == set(range((longest < 25) + (longest < 3)))
    assert reader.predict(asked.split) == reader.predict(split)


def spans(task_type, words, output):
    return [
        (each["start"], each["end"], each["label"], each["text"])
        for each in task_type.spans({"words": words}, output)
    ]


def test_spans_of_entities_in_the_characters_of_the_text():
    task_type = Tagging()
    task_type.state = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
    text = "Ada  Lovelace met\tMary in New York"
    tags = ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC", "I-LOC"]
    expected = [(0, 13, "PER", "Ada  Lovelace"), (18, 22, "PER", "Mary"), (26, 34, "LOC", "New York")]
    assert spans(task_type, text, tags) == expected
    assert spans(task_type, ["New York", "is"], ["B-LOC", "O"]) == [(0, 8, "LOC", "New York")]
    assert spans(task_type, text, tags[:1]) == [(0, 3, "PER", "Ada")]  # the text was cut behind it


# What seqeval's get_entities returns, which follows conlleval.pl: github.com/chakki-works/seqeval.
@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("I-A I-A B-A O", [(0, 1, "A"), (2, 2, "A")]),
        ("O I-A I-B O", [(1, 1, "A"), (2, 2, "B")]),
        ("B-A B-A I-A", [(0, 0, "A"), (1, 2, "A")]),
        ("S-A B-A I-A E-A I-A", [(0, 0, "A"), (1, 3, "A"), (4, 4, "A")]),
        ("U-A B-A L-A U-B", [(0, 0, "A"), (1, 2, "A"), (3, 3, "B")]),
        ("B-A M-A E-A S-A", [(0, 2, "A"), (3, 3, "A")]),
        ("O O", []),
    ],
)
def test_spans_of_all_schemes(tags, found):
    tags = tags.split()
    task_type = Tagging()
    task_type.state = sorted(set(tags))
    words = "abcde"[: len(tags)]
    expected = [
        (2 * first, 2 * last + 1, kind, " ".join(words[first : last + 1])) for first, last, kind in found
    ]
    assert spans(task_type, " ".join(words), tags) == expected


def test_spans_of_tags_without_a_scheme_are_words(tagging):
    assert spans(tagging, "the fox", ["DET", "NOUN"]) == [(0, 3, "DET", "the"), (4, 7, "NOUN", "fox")]
