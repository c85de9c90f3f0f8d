"""A decoder alone continues prompts of different lengths in one batch as it does one by one."""

import pytest
import torch
from tests.recomputing import RecomputingSession

from plugformer.configuration import resolve
from plugformer.configuration.resolving import check_components
from plugformer.data.processor import Inputs, Processor
from plugformer.evaluation.predictor import GenerativePredictor
from plugformer.experiment import Experiment
from plugformer.interfaces import BEGIN, END, UNKNOWN, AllowedOutputs, HeadInput, Tokens, evaluating
from plugformer.model import build
from plugformer.registry import Kind
from plugformer_plugins.tokenizer.word_level import Characters

PROMPTS = ["a", "", "ab ba", "b", "abababab", "bab"]
LENGTH, LONGEST = 10, 7
"""Positions of the model, and the most tokens of an output: the longest prompt leaves room for fewer."""

TASK = """\
type: {type}
data: {{name: dates}}
tokenizer: {{name: characters, shared: true}}
model:
  architecture: decoder-only
  width: 16
  heads: 2
  layers: 2
  ffn_width: 16
  dropout: 0.0
  max_length: {length}
  position: {position}
  embeddings: {{shared: false, tied: false}}
  head: {{name: language_model, bias: true}}
"""


@pytest.fixture(params=["learned", "rope"])
def position(request):
    return request.param


@pytest.fixture(params=["language-modelling", "sequence-to-sequence"])
def task(request, position, registry, tmp_path):
    file = tmp_path / "task.yaml"
    file.write_text(TASK.format(type=request.param, position=position, length=LENGTH))
    return check_components(resolve(str(file), registry=registry)).task


@pytest.fixture
def processor(task, registry):
    tokenizer = Characters()
    tokenizer.train(["ab ba"])
    return Processor(tokenizer, tokenizer, Experiment.of(task, registry).task_type)


@pytest.fixture
def model(task, processor, registry):
    """Untrained, with outputs that end at different times."""
    model = build(Experiment.of(task, registry).spec, processor.sizes).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
        model.head.bias[[UNKNOWN, END]] = torch.tensor([-100.0, -0.5])
    return model


@pytest.fixture
def predictor(model, processor, registry):
    def make(search, **options):
        decoding = registry.create(Kind.DECODING, search)
        constraint = AllowedOutputs(LENGTH, max_length=LONGEST)
        tokens = options.pop("batch_tokens", 1000)
        return GenerativePredictor(model, processor, tokens, decoding, constraint, **options)

    return make


@pytest.fixture
def questions(task, processor, registry):
    def make(prompts):
        return Inputs.of(prompts, Experiment.of(task, registry), processor)

    return make


def said(answers):
    return [(each.output, pytest.approx(each.score, abs=1e-4)) for each in answers]


@pytest.mark.parametrize("search", ["greedy", "beam", "sampling"])
def test_prompts_together_are_continued_as_one_by_one(predictor, questions, search, monkeypatch):
    split = questions(PROMPTS).split
    (batch,) = predictor(search).batches(split, range(len(PROMPTS)))
    assert len(set(batch.given.tolist())) > 3
    together = predictor(search).predict(split)
    assert len({len(answer.output) for answer in together}) > 1, "outputs must end at different times"
    assert said(predictor(search, batch_tokens=1).predict(split)) == said(together)
    alone = [
        predictor(search).predict(questions([prompt]).split, first=row)[0]
        for row, prompt in enumerate(PROMPTS)
    ]
    assert said(alone) == said(together)
    monkeypatch.setattr("plugformer.evaluation.predictor.Session", RecomputingSession)
    assert said(predictor(search).predict(split)) == said(together)


def test_the_score_of_a_continuation_is_its_probability_after_the_prompt(
    model, processor, predictor, questions
):
    answers = predictor("greedy").predict(questions(PROMPTS).split)
    is_source = any(column.role == "input" for column in processor.task_type.columns)
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        given, new = processor.source.encode([prompt, answer.output])
        ids = [BEGIN, *given, *([END] * is_source), *new, END]
        with evaluating(model):
            hidden = model.decoder(tokens(ids[:-1]))
            logits = model.head.logits(hidden, HeadInput(torch.ones(1, len(ids) - 1, dtype=torch.bool)))
        steps = logits[0].log_softmax(-1)[range(len(ids) - 1), ids[1:]]
        assert answer.score == pytest.approx(steps[-len(new) - 1 :].sum().item(), abs=1e-4)


def tokens(ids):
    row = torch.tensor([ids])
    return Tokens(row, torch.ones_like(row, dtype=torch.bool), full=True)


def test_a_prompt_and_its_continuation_fit_the_model_together(model, predictor, questions):
    model.head.bias.data[END] = -100.0
    split = questions(PROMPTS).split
    (batch,) = predictor("greedy").batches(split, range(len(PROMPTS)))
    given = dict(zip(batch.rows, batch.given.tolist(), strict=True))
    answers = predictor("greedy").predict(split)
    assert [len(answer.output) for answer in answers] == [
        min(LONGEST, LENGTH - given[row]) for row in range(len(PROMPTS))
    ]
