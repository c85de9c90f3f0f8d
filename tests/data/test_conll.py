"""CoNLL files: what is a word, a sentence, a comment, and what is refused."""

import pytest
from tests.columns import with_kinds

from plugformer.errors import DataError
from plugformer.interfaces import Column
from plugformer_plugins.data.conll import CoNLL

WORDS = Column("words", "words", "input", tokenizer="source")
COLUMNS = with_kinds([WORDS, Column("tags", "tags", "output", along="words")])


@pytest.fixture
def read(tmp_path):
    def read(text, wanted=COLUMNS, **options):
        file = tmp_path / "train.conll"
        file.write_text(text, encoding="utf-8")
        data = CoNLL(**{"files": {"train": file}, "columns": {"words": 2, "tags": 3}, **options})
        return [(row["words"], row["tags"]) for row in data.load(wanted)["train"]], data.notices()

    return read


def test_sentences_stand_between_blank_lines(read):
    rows, _ = read("\n\n1 It PRON\n2 rains VERB\n\n \n1 Yes INTJ")
    assert rows == [(["It", "rains"], ["PRON", "VERB"]), (["Yes"], ["INTJ"])]


def test_comments_and_what_is_no_word_are_left_out(read):
    rows, _ = read(
        "# text = vámonos # now\n1-2\tvámonos\t_\n1\tvamos\tVERB\n2\tnos\tPRON\n2.1\tø\tVERB\n3\t#\tSYM\n"
        "\n-DOCSTART- -X- O\n\n1\ta b\tX\n"
    )
    assert rows == [(["vamos", "nos", "#"], ["VERB", "PRON", "SYM"]), (["a b"], ["X"])]


def test_words_that_look_like_numbers_of_tokens_are_words(read):
    rows, _ = read("won O\n3-2 O\n1.5 B\n", columns={"words": 1, "tags": 2})
    assert rows == [(["won", "3-2", "1.5"], ["O", "O", "B"])]


def test_a_no_break_space_is_part_of_a_word(read):
    rows, _ = read(" 10\u00a0000  B-NUM \n", columns={"words": 1, "tags": 2})
    assert rows == [(["10\u00a0000"], ["B-NUM"])]


def test_a_line_with_too_few_columns_is_refused_with_its_place(read):
    with pytest.raises(DataError, match=r"train.conll:3: 2 columns, expected text in column 3"):
        read("1 It PRON\n\n1 rains\n")


def test_a_sentence_with_a_bad_line_can_be_skipped(read):
    rows, notices = read("1 It PRON\n2 rains\n\n1 Yes INTJ\n", bad_rows="skip")
    assert rows == [(["Yes"], ["INTJ"])]
    assert len(notices) == 1
