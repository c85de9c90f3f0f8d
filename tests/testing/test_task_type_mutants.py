"""Every check of task types catches a fault that it is there for."""

from dataclasses import replace

import numpy as np
import pytest
from tests.testing.mutants import after, fault_test, instead
from tests.testing.outcomes import failure, outcomes

from plugformer.errors import ExampleError
from plugformer.interfaces import Column
from plugformer.registry import Kind
from plugformer_plugins.task_type.classification import Classification
from plugformer_plugins.task_type.masked_language_modelling import MaskedLanguageModelling
from plugformer_plugins.task_type.multi_label import MultiLabel
from plugformer_plugins.task_type.pairs import Retrieval
from plugformer_plugins.task_type.regression import Regression


class NamesTheFirst(Classification):
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


def hide_targets(self, drawn, *_):
    """Masks tokens, and does not say which."""
    return replace(drawn, targets=drawn.targets.only(np.zeros_like(drawn.targets.present)))


def encoding(name, base, change, *, of=""):
    """Returns a type that encodes parts otherwise, where examples have a column."""

    def encode(self, encoded, examples, tokenizers):
        return {**encoded, **change(encoded, examples)} if not of or of in examples else encoded

    return after(name, base, encode=encode)


def scaled_over_the_chunk(_, examples):
    return {"targets": (np.array(examples["number"]) - np.mean(examples["number"])).tolist()}


class NeverEnoughAnswers(MultiLabel):
    def answer(self, model, batch, tokenizers, n_best):
        return super().answer(model, batch, tokenizers, 1)


def answering(name, base, change):
    """Returns a type that gives other answers: functions of (self, answer, all answers)."""
    return after(
        name, base, answer=lambda self, answers, *_: [change(self, each, answers) for each in answers]
    )


def ranked(self, answer, answers):
    """Answers with how far an example is from the batch's mean."""
    return replace(answer, output=answer.output - sum(each.output for each in answers) / len(answers))


class FindsInABatch(Retrieval):
    """Looks at the first examples alone."""

    def rank(self, questions, vectors, examples, n_best):
        return super().rank(questions, vectors[:3], examples[:3], n_best)


TEXT = Column("text", "text", "input", tokenizer="source")
MUTANTS = {
    "examples_become_batches": instead(
        "DrawsNothing", Classification, draw=lambda self, encoded, generators: None
    ),
    "answers_are_of_their_type": answering("RanksTheBatch", Regression, ranked),
    "a_model_learns_from_it": after("NothingToPredict", MaskedLanguageModelling, draw=hide_targets),
    "columns_are_sound": instead("NothingToRead", Classification, columns=(replace(TEXT, tokenizer=None),)),
    "what_it_learns_survives_json": after(
        "LearnsATuple", Classification, learn=lambda self, learned, _: tuple(learned)
    ),
    "numbers_fit_the_level": instead(
        "TooFewOutputs", Classification, outputs=property(lambda self: len(self.state) - 1)
    ),
    "encoding_is_repeatable": encoding("ScalesOverTheChunk", Regression, scaled_over_the_chunk, of="number"),
    "questions_are_read_as_their_examples": encoding(
        "Cuts", Classification, lambda x, _: {"input": [row[:5] for row in x["input"]]}, of="label"
    ),
    "unseen_labels_are_refused": NamesTheFirst,
    "draws_follow_their_generators": DrawsFromOne,
    "alternatives_follow_the_best": NeverEnoughAnswers,
    "the_nearest_are_found": FindsInABatch,
    "references_are_answers": instead(
        "OneReference", Regression, references=lambda self, example: example["number"]
    ),
}


test_every_check_catches_a_fault = fault_test(MUTANTS, Kind.TASK_TYPE)


def test_what_others_cannot_import_is_no_fault_of_a_type(registry, tmp_path):
    manifest = tmp_path / "registry.yaml"
    manifest.write_text("components: {head: {broken: {class: 'no_such_module:Head'}}}")
    mutant = instead("NobodyPredictsMoods", Classification, output_type="mood")
    message = failure(mutant, "a_model_learns_from_it", registry=registry.with_local(manifest))
    assert message == "its answers are 'mood', which no installed head predicts"


UNUSABLE = {
    "Weighs: `encode` or `draw` returns weights of the shape [5]": instead(
        "Weighs",
        Classification,
        draw=lambda self, encoded, _: replace(encoded, weights=np.ones(len(encoded) - 1)),
    ),
    "Weighs: `encode` or `draw` returns weights of which one is wrong": instead(
        "Weighs",
        Classification,
        draw=lambda self, encoded, _: replace(encoded, weights=-np.ones(len(encoded))),
    ),
    "Weighs: `encode` returns 1 weights for 6 examples": after(
        "Weighs", Classification, encode=lambda self, found, *_: {**found, "weights": [1.0]}
    ),
    "Masks: `encode` returns 'mask'; known: input, output, targets, weights": after(
        "Masks", Classification, encode=lambda self, found, *_: {**found, "mask": [1.0]}
    ),
}


@pytest.mark.parametrize("message", UNUSABLE)
def test_examples_that_become_no_batch_are_named_once(message):
    first, *others = outcomes(UNUSABLE[message]).values()
    assert message in first
    assert set(others) == {"skipped: not run, since examples_become_batches failed"}
