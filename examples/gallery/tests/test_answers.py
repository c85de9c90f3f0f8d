"""Spans of a text, and a label with a number: from examples to metrics."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from datasets import ClassLabel, Dataset
from plugformer_gallery.multi_task import LabelAndNumber
from plugformer_gallery.pointers import Pointers
from plugformer_gallery.squad import SQuADExactMatch, SQuADF1
from plugformer_gallery.two_heads import TwoHeads
from torch.nn.functional import cross_entropy

import plugformer
from plugformer.errors import PlugformerError
from plugformer.interfaces import HeadContext, HeadInput
from plugformer_testing import parametrize_with_checks


@parametrize_with_checks("head/pointers")
def test_pointers(check):
    check()


@parametrize_with_checks("head/two_heads", options={"weight": 0.3})
def test_two_heads(check):
    check()


@parametrize_with_checks("head/candidates")
def test_candidates(check):
    check()


@parametrize_with_checks("task_type/multiple-choice")
def test_multiple_choice(check):
    check()


@parametrize_with_checks("task_type/span-extraction")
def test_span_extraction(check):
    check()


@parametrize_with_checks("task_type/label-and-number")
def test_label_and_number(check):
    check()


@parametrize_with_checks("metric/squad_exact_match")
def test_squad_exact_match(check):
    check()


@parametrize_with_checks("metric/squad_f1")
def test_squad_f1(check):
    check()


@parametrize_with_checks("metric/label_accuracy")
def test_label_accuracy(check):
    check()


@parametrize_with_checks("metric/number_error")
def test_number_error(check):
    check()


@parametrize_with_checks("column/day")
def test_day(check):
    check()


@parametrize_with_checks("task_type/dating")
def test_dating(check):
    check()


@parametrize_with_checks("task_type/token-regression")
def test_token_regression(check):
    check()


@parametrize_with_checks("head/word_regressor")
def test_word_regressor(check):
    check()


NAMES, TOWNS = ("Ann", "Bob", "Eva"), ("New York", "Rome", "St. Ives")
QUESTIONS = [
    [f"Where is {name}?", f"Is it {name} in  {town}, or {other} (in {away})?", town]
    for (name, other), (town, away) in itertools.product(
        itertools.permutations(NAMES, 2), itertools.permutations(TOWNS, 2)
    )
]
REVIEWS = [
    [f"{'very ' * count}{word}", label, str(count)]
    for word, label in (("nice", "good"), ("dull", "bad"))
    for count in (1, 2, 3, 4)
    for _ in range(4)
]


@pytest.fixture
def questions(write_task: Callable[..., str]) -> str:
    return write_task(
        ["question", "context", "answer"],
        QUESTIONS,
        type="span-extraction",
        architecture="encoder-only",
        head="pointers",
        metrics="squad_exact_match, squad_f1, exact_match",
    )


def test_spans_are_found_as_they_are_written(questions: str, tmp_path: Path) -> None:
    settings = ["training.steps=80", "training.evaluate_every=80", "model.position=rope"]
    report = plugformer.train(questions, overrides=settings, out=tmp_path / "run").report
    scores = {name: found["value"] for name, found in report.metrics.items()}
    assert scores["exact_match"] > 0.9
    assert scores["squad_f1"] >= scores["squad_exact_match"] >= scores["exact_match"]
    trained = plugformer.load(tmp_path / "run")
    # The tokens are lower case and know no Leeds: what is answered is a part of the context, even so.
    context = "Is it Ann in  St. Leeds, or Bob (in Rome)?"
    answer = trained.predict(f"Where is Ann?\t{context}")
    assert answer.output in context
    assert answer.probability <= 1


def test_an_embedding_is_not_tied_to_what_are_no_tokens(questions: str) -> None:
    with pytest.raises(PlugformerError, match="the outputs of a span-extraction task are no tokens"):
        plugformer.train(questions, overrides=["model.embeddings.tied=true"])


def test_answers_that_no_context_has_are_refused(questions: str, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("question\tcontext\tanswer\nWho?\tAnn is here.\tEva\n")
    with pytest.raises(PlugformerError, match=r"train.tsv:2.*the context does not have the answer 'Eva'"):
        plugformer.train(questions, out=tmp_path / "run")


def test_questions_without_a_context_are_refused() -> None:
    task_type = plugformer.create("task_type", "span-extraction")
    for text in ("Where is Ann?", "Where is Ann?\t", "\tAnn is here.", "Who?\t "):
        with pytest.raises(PlugformerError, match="give a question and a context with a tab between"):
            task_type.example_from_text(text)


@pytest.mark.parametrize("pointers", [1, 2, 3])
def test_pointers_are_the_best_in_their_order(pointers: int) -> None:
    """All choices in order are tried; probabilities are those of a softmax over the text."""
    torch.manual_seed(pointers)
    head = Pointers(HeadContext(width=8, heads=2, ffn_width=8, outputs=pointers + 1))
    hidden = 3 * torch.randn(4, 6, 8)
    real = torch.tensor([[1] * 6, [0, 1, 1, 0, 1, 1], [1, 1, 1, 0, 0, 0], [0] * 6]).bool()
    outputs, best = head.best(hidden, HeadInput(real))
    logits = head.logits(hidden, HeadInput(real))
    for row in range(3):
        places = real[row].nonzero()[:, 0].tolist()
        scores = torch.stack(
            [
                (logits[row, places, each] - logits[row, places, 0]).log_softmax(0)
                for each in range(1, pointers + 1)
            ]
        )
        found = max(
            itertools.combinations(range(len(places)), pointers),
            key=lambda chosen: sum(scores[number, place] for number, place in enumerate(chosen)),
        )
        expected = [0] * 6
        for number, place in enumerate(found, start=1):
            expected[places[place]] = number
        assert outputs[row].tolist() == expected
        likelihood = head.likelihoods(hidden[[row]], torch.tensor([expected]), HeadInput(real[[row]]))
        torch.testing.assert_close(likelihood.log_probabilities, best[[row]])
        assert likelihood.correct == real[row].sum()
    assert (outputs[3].sum(), best[3]) == (0, 0)


def test_squad_counts_words_without_case_punctuation_and_articles() -> None:
    predictions = ["The Eiffel tower!", "in Paris, France", "", "a cat cat"]
    references = [["eiffel Tower"], ["Rome", "Paris"], ["nothing"], ["the cat sat"]]
    exact, f1 = SQuADExactMatch(), SQuADF1()
    assert exact.statistics(predictions, references)[:, 0].tolist() == [1, 0, 0, 0]
    # precision and recall: 1 and 1; 1/3 and 1; none; 1/2 and 1/2
    assert f1.statistics(predictions, references)[:, 0].tolist() == [1, 0.5, 0, 0.5]


def test_both_heads_learn(write_task: Callable[..., str], tmp_path: Path) -> None:
    task = write_task(
        ["text", "label", "number"],
        REVIEWS,
        type="label-and-number",
        architecture="encoder-only",
        head="two_heads",
        metrics="label_accuracy, number_error",
    )
    report = plugformer.train(task, overrides=["training.steps=60"], out=tmp_path / "run").report
    assert report.metrics["label_accuracy"]["value"] == 1
    assert report.metrics["number_error"]["value"] < 0.5  # the numbers' variance is 1.25
    answer = plugformer.load(tmp_path / "run").predict("very very very dull")
    assert answer.output["label"] == "bad"
    assert 2 < answer.output["number"] < 4
    assert answer.text == f"label: bad, number: {answer.output['number']:.6g}"
    with pytest.raises(PlugformerError, match="expected 'label_accuracy' or 'number_error'"):
        plugformer.train(task, overrides=["evaluation.metrics=[accuracy]"], out=tmp_path / "other")
    with pytest.raises(
        PlugformerError, match="a label-and-number task label and number; expected 'two_heads'"
    ):
        plugformer.train(task, overrides=["model.head=regressor"], out=tmp_path / "other")


def test_the_loss_is_that_of_both() -> None:
    torch.manual_seed(0)
    head = TwoHeads(HeadContext(width=8, heads=2, ffn_width=8, outputs=4), weight=0.5)
    hidden, real = torch.randn(3, 4, 8), torch.ones(3, 4, dtype=torch.bool)
    targets = torch.tensor([[0.0, 1.5], [2.0, -1.0], [1.0, 0.0]])
    mean = hidden.mean(dim=1)
    labels = cross_entropy(head.label(mean), targets[:, 0].long(), reduction="sum")
    numbers = (head.number(mean)[:, 0] - targets[:, 1]).square().sum()
    loss, count = head.loss(hidden, targets, HeadInput(real))
    torch.testing.assert_close(loss, labels + 0.5 * numbers)
    assert count == 3


def test_equal_numbers_have_a_deviation_of_one() -> None:
    rows = Dataset.from_dict({"number": [0.1] * 3, "label": ["good"] * 3})
    learned = LabelAndNumber().learn(rows.cast_column("label", ClassLabel(names=["good"])))
    assert learned == {"labels": ["good"], "mean": pytest.approx(0.1), "deviation": 1.0}
