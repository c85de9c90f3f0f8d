"""Every check of task types catches a fault that it is there for."""

import sys
from dataclasses import replace
from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from tests.testing.mutants import after, before, instead, mutant_tests

from plugformer.data import arrow
from plugformer.errors import ExampleError
from plugformer.interfaces import Column, Input, Prediction, Ragged
from plugformer.registry import Kind
from plugformer_blocks import pad_targets
from plugformer_plugins.architecture import encoder_only
from plugformer_plugins.task_type.classification import Classification
from plugformer_plugins.task_type.masked_language_modelling import MaskedLanguageModelling
from plugformer_plugins.task_type.multi_label import MultiLabel
from plugformer_plugins.task_type.pairs import Retrieval
from plugformer_plugins.task_type.regression import Regression
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence
from plugformer_plugins.task_type.tagging import Tagging
from plugformer_testing import Status, check
from plugformer_testing.runner import find_checks, run_check
from plugformer_testing.subject import Subject


class LearnsWhileEncoding(Classification):
    """Numbers labels in the order in which it meets them."""

    def __init__(self):
        super().__init__()
        self.met = {}

    def encode(self, examples, tokenizers):
        encoded = super().encode(examples, tokenizers)
        if "label" in examples:
            numbers = [self.met.setdefault(label, (len(self.met) + 1) % 3) for label in examples["label"]]
            encoded["targets"] = numbers
            self.met = dict(reversed(list(self.met.items())))
            self.met.pop(examples["label"][0])
        return encoded


class UnknownIsTheFirst(Classification):
    """Takes a label that it does not know for the first."""

    def encode(self, examples, tokenizers):
        if "label" in examples:
            known = [label if label in self.state else self.state[0] for label in examples["label"]]
            examples = {**examples, "label": known}
        return super().encode(examples, tokenizers)


class NamesTheFirst(UnknownIsTheFirst):
    """Refuses an unknown label, and says that it is the first example's; has few examples of its own."""

    check_examples = ({"text": "good", "label": "yes"}, {"text": "bad", "label": "no"})

    def encode(self, examples, tokenizers):
        if set(examples.get("label", ())) - set(self.state):
            raise ExampleError(0, f"unknown label {examples['label'][-1]!r}")
        return super().encode(examples, tokenizers)


class DrawsFromOne(MaskedLanguageModelling):
    """Takes the generator of the first example for all."""

    def draw(self, encoded, generators):
        return super().draw(encoded, [generators[0]] * len(generators))


class DrawsForItself(MaskedLanguageModelling):
    def draw(self, encoded, generators):
        return super().draw(encoded, [np.random.default_rng() for _ in generators])


def weighing(name, weights):
    """Returns a task type that draws weights of a number of examples."""

    def draw(self, encoded, generators):
        return replace(encoded, weights=weights(len(encoded)))

    return instead(name, Classification, draw=draw)


def overwrite(self, drawn, encoded, generators):
    encoded.input.values[:] = drawn.input.values
    return drawn


def hide_targets(self, drawn, *_):
    """Masks tokens, and does not say which."""
    return replace(drawn, targets=drawn.targets.only(np.zeros_like(drawn.targets.present)))


def encoding(name, base, change, *, of=""):
    """Returns a type that encodes parts otherwise, where examples have a column."""

    def encode(self, encoded, examples, tokenizers):
        return {**encoded, **change(encoded, examples)} if not of or of in examples else encoded

    return after(name, base, encode=encode)


def one_target_each(encoded, _):
    """Gives one target to a word, however many tokens it has."""
    return {"targets": [[number for number in row if number is not None] for row in encoded["targets"]]}


def scaled_over_the_chunk(_, examples):
    return {"targets": (np.array(examples["number"]) - np.mean(examples["number"])).tolist()}


def without_marks(encoded, examples):
    """Gives questions a target for each token."""
    return {} if "tags" in examples else {"targets": [[0] * len(row) for row in encoded["input"]]}


class IgnoresTheNumber(Classification):
    """Has one answer, however many are asked for within reason."""

    def answer(self, model, batch, tokenizers, n_best):
        number = n_best if n_best > len(self.state) else 1
        return super().answer(model, batch, tokenizers, number)


class NeverEnoughAnswers(MultiLabel):
    def answer(self, model, batch, tokenizers, n_best):
        return super().answer(model, batch, tokenizers, 1)


class ATagForEachToken(Tagging):
    def answer(self, model, batch, tokenizers, n_best):
        outputs, _ = model.best(batch)
        return [Prediction([self.state[tag] for tag in row.tolist()]) for row in outputs]


def answering(name, base, change):
    """Returns a type that gives other answers: functions of (self, answer, all answers)."""
    return after(
        name, base, answer=lambda self, answers, *_: [change(self, each, answers) for each in answers]
    )


def numbered(self, answer, _):
    return replace(answer, output=self.state.index(answer.output))


def ranked(self, answer, answers):
    """Answers with how far an example is from the batch's mean."""
    return replace(answer, output=answer.output - sum(each.output for each in answers) / len(answers))


def turned(self, answer, _):
    return Prediction.of([*answer.alternatives[::-1], replace(answer, alternatives=())])


class FindsInABatch(Retrieval):
    """Looks at the first examples alone."""

    def rank(self, questions, vectors, examples, n_best):
        return super().rank(questions, vectors[:3], examples[:3], n_best)


def reversed_answers(answer):
    ranked = [answer, *answer.alternatives]
    return Prediction.of([replace(each, alternatives=()) for each in reversed(ranked)])


NobodyPredictsMoods = instead("NobodyPredictsMoods", Classification, output_type="mood")

WORDS, TEXT = (Column(name, name, "input", tokenizer="source") for name in ("words", "text"))
MUTANTS = {
    "answers_are_of_their_type": (
        answering(
            "RanksByName",
            Regression,
            lambda *given: replace(given[1], output={"rank": ranked(*given).output}),
        ),
        answering("AnswersInNumbers", Classification, numbered),
        ATagForEachToken,
        answering(
            "ScoresInProbabilities", MultiLabel, lambda _, each, all_: replace(each, score=each.probability)
        ),
        answering("RanksTheBatch", Regression, ranked),
    ),
    "a_model_learns_from_it": (
        NobodyPredictsMoods,
        after("NothingToPredict", MaskedLanguageModelling, draw=hide_targets),
    ),
    "columns_are_sound": (
        instead("TagsAlongNothing", Tagging, columns=(WORDS, Column("tags", "tags", "output"))),
        instead("NothingToRead", Classification, columns=(replace(TEXT, tokenizer=None),)),
    ),
    "what_it_learns_survives_json": (
        after(
            "LearnsASet", instead("Sets", MultiLabel, state_type=set[str]), learn=lambda self, x, _: set(x)
        ),
        instead("LearnsUndeclared", MultiLabel, state_type=None),
        instead("LearnsOtherThanDeclared", Regression, state_type=dict[str, int]),
        after("LearnsATuple", Classification, learn=lambda self, learned, _: tuple(learned)),
    ),
    "targets_arrive_as_encoded": (  # single precision cannot tell seconds since 1970 apart
        instead("SecondsSinceTheEpoch", Regression, target=lambda self, row, value: 1.7e9 + value),
    ),
    "numbers_fit_the_level": (
        instead("TooFewOutputs", Classification, outputs=property(lambda self: len(self.state) - 1)),
        encoding("ATargetForEachWord", Tagging, one_target_each),
    ),
    "encoding_is_repeatable": (
        LearnsWhileEncoding,
        encoding("ScalesOverTheChunk", Regression, scaled_over_the_chunk, of="number"),
    ),
    "questions_are_read_as_their_examples": (
        encoding("Cuts", Classification, lambda x, _: {"input": [row[:5] for row in x["input"]]}, of="label"),
        encoding("ForgetsWhatToLabel", Tagging, without_marks),
        before("LowersQuestions", SequenceToSequence, example_from_text=lambda self, text: text.upper()),
    ),
    "unseen_labels_are_refused": (UnknownIsTheFirst, NamesTheFirst),
    "draws_follow_their_generators": (
        DrawsFromOne,
        DrawsForItself,
        weighing("WeighsByItself", lambda count: np.random.default_rng().random(count)),
        after("OverwritesExamples", MaskedLanguageModelling, draw=overwrite),
    ),
    "alternatives_follow_the_best": (
        NeverEnoughAnswers,
        IgnoresTheNumber,
        answering("WorstFirst", Classification, turned),
    ),
    "the_nearest_are_found": (
        FindsInABatch,
        after("FarthestFirst", Retrieval, rank=lambda self, answers, *_: [*map(reversed_answers, answers)]),
    ),
    "references_are_answers": (
        instead("OneReference", Regression, references=lambda self, example: example["number"]),
    ),
}


test_is_caught, test_every_check_catches_one = mutant_tests(
    MUTANTS, Kind.TASK_TYPE, raising=("LearnsASet", "LearnsUndeclared", "LearnsOtherThanDeclared")
)


def test_what_others_cannot_import_is_no_fault_of_a_type(registry, tmp_path):
    manifest = tmp_path / "registry.yaml"
    manifest.write_text("components: {head: {broken: {class: 'no_such_module:Head'}}}")
    subject = Subject.of(NobodyPredictsMoods, registry.with_local(manifest))
    ended = run_check(subject, *find_checks(Kind.TASK_TYPE, ["a_model_learns_from_it"]))
    assert ended.message == "its answers are 'mood', which no installed head predicts"


@pytest.mark.parametrize(
    ("weights", "named"),
    [
        (lambda count: -np.ones(count), "-1.0"),
        (lambda count: np.full(count, np.nan), "nan"),
        (lambda count: np.ones(count - 1), "[5]"),
    ],
)
def test_weights_that_no_loss_can_have_are_named(weights, named):
    mutant = weighing("Weighs", weights)
    (outcome,) = check(mutant, only="a_model_learns_from_it").outcomes
    assert "Weighs: `draw` returns" in outcome.message
    assert named in outcome.message


def test_numbers_that_nothing_reads_are_named():
    mutant = after("Weighs", Classification, encode=lambda self, found, *_: {**found, "weights": [1.0]})
    (outcome,) = check(mutant, only="a_model_learns_from_it").outcomes
    assert "Weighs: `encode` returns 'weights'; known: input, output, targets" in outcome.message


class Measures(Tagging):
    """Has numbers for targets, one that is legal and one that often means "no target" among them."""

    numbers = (-100.0, 0.5, 1e-3, 0.0)

    def encode(self, examples, tokenizers):
        encoded = super().encode(examples, tokenizers)
        rows = ((row, cycle(self.numbers)) for row in encoded["targets"])
        return {
            **encoded,
            "targets": [[old if old is None else next(turn) for old in row] for row, turn in rows],
        }


class Offsets(Measures):
    numbers = (-100, 3, 0)


def whole(targets, **options):
    numbers = targets.values.astype(np.int64)
    return pad_targets(Ragged(numbers, targets.lengths).only(targets.present), **options)


FAULTS = {
    "whole numbers in batches": (Measures, encoder_only, "pad_targets", whole),
    "whole numbers in files": (
        Measures,
        arrow,
        "pa",
        SimpleNamespace(**{**vars(pa), "array": lambda rows, *_: pa.array(np.array(rows).astype(np.int32))}),
    ),
    "whole numbers of draws": (
        Measures,
        Ragged,
        "of",
        lambda rows: of([[each if each is None else int(each) for each in row] for row in rows]),
    ),
    "-100.0 is absent": (Measures, encoder_only, "token_targets", lambda found: (found, found > -100)),
    "-100 is absent": (Offsets, encoder_only, "token_targets", lambda found: (found, found > -100)),
    "absent is 0": (
        Measures,
        encoder_only,
        "token_targets",
        lambda found: (found.nan_to_num(), ~found.isinf()),
    ),
    "words are cut alone": (
        Measures,
        Ragged,
        "take",
        lambda self, rows, limit=sys.maxsize: (
            whole if (whole := take(self, rows)).values.dtype.kind == "f" else take(self, rows, limit)
        ),
    ),
}
of, take = Ragged.of, Ragged.take


@pytest.mark.parametrize("task_type", [Measures, Offsets])
def test_targets_of_any_kind_arrive(task_type):
    assert check(task_type, only="targets_arrive_as_encoded")


@pytest.mark.parametrize("fault", FAULTS)
def test_targets_that_change_on_their_way_are_found(fault, monkeypatch):
    task_type, owner, name, faulty = FAULTS[fault]
    monkeypatch.setattr(owner, name, faulty)
    (outcome,) = check(task_type, only="targets_arrive_as_encoded").outcomes
    assert outcome.status is Status.FAILED


def test_a_type_without_questions_is_named_and_not_unpacked():
    columns = (Column("text", "text", "output", tokenizer="source"),)
    members = {
        "columns": columns,
        "inputs": (Input(),),
        "example_from_text": lambda self, text: {"text": text},
    }
    task_type = instead("OutputsOnly", MaskedLanguageModelling, **members)
    (outcome,) = check(task_type, only="answers_are_of_their_type").outcomes
    assert (outcome.status, outcome.traceback) == (Status.FAILED, "")
    assert "no input column" in outcome.message
