"""Every check of task types catches a fault that it is there for."""

from dataclasses import replace

import numpy as np
from tests.testing.mutants import mutant_tests

from plugformer.errors import ExampleError
from plugformer.interfaces import IGNORED, Column, Encoded, Prediction, Ragged
from plugformer.registry import Kind
from plugformer_plugins.task_type.classification import Classification
from plugformer_plugins.task_type.masked_language_modelling import MaskedLanguageModelling
from plugformer_plugins.task_type.multi_label import MultiLabel
from plugformer_plugins.task_type.regression import Regression
from plugformer_plugins.task_type.sequence_to_sequence import SequenceToSequence
from plugformer_plugins.task_type.tagging import Tagging
from plugformer_testing.runner import find_checks, run_check
from plugformer_testing.subject import Subject


class TagsAlongNothing(Tagging):
    columns = (Column("words", "words", "input", tokenizer="source"), Column("tags", "tags", "output"))


class NothingToRead(Classification):
    columns = (Column("text", "text", "input"), Column("label", "label", "output"))


class LearnsASet(MultiLabel):
    state_type = set[str]

    def learn(self, train):
        return set(super().learn(train))


class LearnsUndeclared(MultiLabel):
    state_type = None


class LearnsOtherThanDeclared(Regression):
    state_type = dict[str, int]


class LearnsATuple(Classification):
    """JSON knows lists alone."""

    def learn(self, train):
        return tuple(super().learn(train))


class TooFewOutputs(Classification):
    @property
    def outputs(self):
        return len(self.state) - 1


class ATargetForEachWord(Tagging):
    """Gives one target to a word, however many tokens it has."""

    def encode(self, examples, tokenizers):
        encoded = super().encode(examples, tokenizers)
        targets = [[number for number in row if number != IGNORED] for row in encoded["targets"]]
        return {**encoded, "targets": targets}


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


class ScalesOverTheChunk(Regression):
    def encode(self, examples, tokenizers):
        encoded = super().encode(examples, tokenizers)
        if "number" in examples:
            numbers = np.array(examples["number"])
            encoded["targets"] = (numbers - numbers.mean()).tolist()
        return encoded


class CutsTrainingTextsAlone(Classification):
    """Prepares examples in another way than questions."""

    def encode(self, examples, tokenizers):
        encoded = super().encode(examples, tokenizers)
        if "label" in examples:
            encoded["input"] = [row[:5] for row in encoded["input"]]
        return encoded


class ForgetsWhatToLabel(Tagging):
    def encode(self, examples, tokenizers):
        encoded = super().encode(examples, tokenizers)
        if "tags" not in examples:
            encoded["targets"] = [[0] * len(row) for row in encoded["input"]]
        return encoded


class LowersQuestions(SequenceToSequence):
    def example_from_text(self, text):
        return super().example_from_text(text.upper())


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


class OverwritesExamples(MaskedLanguageModelling):
    def draw(self, encoded, generators):
        drawn = super().draw(encoded, generators)
        encoded.input.values[:] = drawn.input.values
        return drawn


class NothingToPredict(MaskedLanguageModelling):
    """Masks tokens, and does not say which."""

    def draw(self, encoded: Encoded, generators):
        drawn = super().draw(encoded, generators)
        return replace(
            drawn, targets=Ragged(np.full_like(drawn.targets.values, IGNORED), drawn.targets.lengths)
        )


class SecondsSinceTheEpoch(Regression):
    """Leaves numbers as they are, which single precision cannot tell apart."""

    def target(self, row, value):
        return 1.7e9 + value


class IgnoresTheNumber(Classification):
    """Has one answer, however many are asked for within reason."""

    def answer(self, model, batch, tokenizers, n_best):
        number = n_best if n_best > len(self.state) else 1
        return super().answer(model, batch, tokenizers, number)


class WorstFirst(Classification):
    def answer(self, model, batch, tokenizers, n_best):
        return [
            Prediction.of([*answer.alternatives[::-1], replace(answer, alternatives=())])
            for answer in super().answer(model, batch, tokenizers, n_best)
        ]


class AnswersInNumbers(Classification):
    def answer(self, model, batch, tokenizers, n_best):
        answers = super().answer(model, batch, tokenizers, n_best)
        return [replace(answer, output=self.state.index(answer.output)) for answer in answers]


class ATagForEachToken(Tagging):
    def answer(self, model, batch, tokenizers, n_best):
        best = model.best(batch)
        return [Prediction([self.state[tag] for tag in row.tolist()]) for row in best.outputs]


class ScoresInProbabilities(MultiLabel):
    def answer(self, model, batch, tokenizers, n_best):
        answers = super().answer(model, batch, tokenizers, n_best)
        return [replace(answer, score=answer.probability) for answer in answers]


class RanksTheBatch(Regression):
    """Answers with how far an example is from the batch's mean."""

    def answer(self, model, batch, tokenizers, n_best):
        answers = super().answer(model, batch, tokenizers, n_best)
        mean = sum(answer.output for answer in answers) / len(answers)
        return [replace(answer, output=answer.output - mean) for answer in answers]


class NeverEnoughAnswers(MultiLabel):
    def answer(self, model, batch, tokenizers, n_best):
        return super().answer(model, batch, tokenizers, 1)


class OneReference(Regression):
    def references(self, example):
        return example["number"]


class RanksByName(RanksTheBatch):
    """Does the same in an answer of several parts."""

    def answer(self, model, batch, tokenizers, n_best):
        answers = super().answer(model, batch, tokenizers, n_best)
        return [replace(answer, output={"rank": answer.output}) for answer in answers]


class NobodyPredictsMoods(Classification):
    output_type = "mood"


MUTANTS = {
    "answers_are_of_their_type": (
        RanksByName,
        AnswersInNumbers,
        ATagForEachToken,
        ScoresInProbabilities,
        RanksTheBatch,
    ),
    "a_model_learns_from_it": (NobodyPredictsMoods, NothingToPredict),
    "columns_are_sound": (TagsAlongNothing, NothingToRead),
    "what_it_learns_survives_json": (LearnsASet, LearnsUndeclared, LearnsOtherThanDeclared, LearnsATuple),
    "targets_arrive_as_encoded": (SecondsSinceTheEpoch,),
    "numbers_fit_the_level": (TooFewOutputs, ATargetForEachWord),
    "encoding_is_repeatable": (LearnsWhileEncoding, ScalesOverTheChunk),
    "questions_are_read_as_their_examples": (CutsTrainingTextsAlone, ForgetsWhatToLabel, LowersQuestions),
    "unseen_labels_are_refused": (UnknownIsTheFirst, NamesTheFirst),
    "draws_follow_their_generators": (DrawsFromOne, DrawsForItself, OverwritesExamples),
    "alternatives_follow_the_best": (NeverEnoughAnswers, IgnoresTheNumber, WorstFirst),
    "references_are_answers": (OneReference,),
}


test_is_caught, test_every_check_catches_one = mutant_tests(MUTANTS, Kind.TASK_TYPE)


def test_what_others_cannot_import_is_no_fault_of_a_type(registry, tmp_path):
    manifest = tmp_path / "registry.yaml"
    manifest.write_text("components: {head: {broken: {class: 'no_such_module:Head'}}}")
    subject = Subject.of(NobodyPredictsMoods, registry.with_local(manifest))
    ended = run_check(subject, *find_checks(Kind.TASK_TYPE, ["a_model_learns_from_it"]))
    assert ended.message == "its answers are 'mood', which no installed head predicts"
