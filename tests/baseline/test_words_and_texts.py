"""Tags of words, nearest texts, and translated words, on examples that can be computed by hand."""

import pytest

from plugformer.interfaces import TaskType
from plugformer.registry import Kind
from plugformer_plugins.baseline.alignment import IBMModel1
from plugformer_plugins.baseline.neighbours import NearestNeighbour
from plugformer_plugins.baseline.tagging import FrequentTag


def test_words_have_their_most_frequent_tag_and_unknown_ones_that_of_their_ending():
    baseline = FrequentTag()
    baseline.fit(
        [{"words": ["run", "run", "run"]}, {"words": ["walking", "talking", "x"]}],
        [["V", "N", "N"], ["G", "G", "X"]],
    )
    answer = baseline.answer([{"words": ["run", "Running", "☃", "thing"]}], (), 1)[0]
    assert answer.output == ["N", "G", "N", "G"]


def test_the_nearest_example_shares_rare_characters():
    questions = [{"source": text} for text in ("the 7th of May", "the 9th of June", "the 7th of June")]
    baseline = NearestNeighbour()
    baseline.fit(questions, ["a", "b", "c"])
    answers = baseline.answer([*questions, {"source": "9th of june!"}, {"source": "☃"}], (), 2)
    assert [answer.output for answer in answers[:4]] == ["a", "b", "c", "b"]
    assert [len(answer.alternatives) for answer in answers] == [1] * 5
    among = baseline.answer([{"source": "on the 7th of May"}], ["30th of April", "7th of May"], 1)
    assert among[0].output == "7th of May"


def test_ibm_model_1_finds_the_translations_of_koehn():
    # Koehn 2010, Statistical Machine Translation, figure 4.4: das Haus, das Buch, ein Buch.
    pairs = {"das Haus": "the house", "das Buch": "the book", "ein Buch": "a book"}
    baseline = IBMModel1()
    baseline.fit([{"first": text} for text in pairs], list(pairs.values()))
    table = baseline._table.toarray()
    best = {
        e: max(baseline._asked, key=lambda f, e=e: table[baseline._asked[f], baseline._given[e]])
        for e in ("the", "house", "book", "a")
    }
    assert best == {"the": "das", "house": "haus", "book": "buch", "a": "ein"}
    assert table.sum(axis=0).tolist() == pytest.approx([1.0] * table.shape[1])
    found = baseline.answer([{"first": "ein Haus"}], ["the book", "a house", "a book"], 3)[0]
    assert [found.output, *(other.output for other in found.alternatives)][0] == "a house"


def test_ibm_model_1_is_for_tasks_that_rank(registry):
    kinds = {name: registry.create(Kind.TASK_TYPE, name) for name in ("retrieval", "sequence-to-sequence")}
    assert isinstance(kinds["retrieval"], TaskType)
    assert [IBMModel1.fits(each) for each in kinds.values()] == [True, False]
