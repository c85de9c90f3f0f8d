"""Copying, finding names and closing brackets are learned, every time, from a random seed."""

import random
from math import exp, log

from plugformer.runs.loading import load
from plugformer.training.train import train
from plugformer_plugins.task_type.language_modelling import LanguageModelling
from plugformer_tasks.brackets.data import ENDED, OPENED, Brackets

SHORT = (
    "data.numbers=5",
    "data.symbols=6",
    "data.size=4000",
    "data.held_out=200",
    "model.layers=1",
    "model.dropout=0.0",
    "model.position=rope",
    "model.decoder.cross_attention.position=rope",
    "training.steps=400",
    "training.batch_size=64",
    "training.optimizer={name: adam, lr: 0.005}",
    "training.schedule={name: warmup_cosine, warmup_steps: 40}",
    "training.evaluate_every=400",
    "evaluation.limit=20",
)
"""Five of six numbers, where each position reads its like: learned in a few seconds."""

COPIED = 0.99
"""What has learned to copy repeats at least these of all sequences; what has not, next to none.

From seeds 1 to 28 all were right with the short settings. With the task's own, a rare seed leaves one in a
thousand wrong (training.seed=1901402653 data.seed=1901402653): to ask for all would fail by chance.
"""


def random_seed():
    seed = random.SystemRandom().randrange(2**31)
    print(f"training.seed={seed} data.seed={seed}")  # noqa: T201 (pytest shows it when the test fails)
    return seed


def seeds(seed):
    return [f"training.seed={seed}", f"data.seed={seed}"]


def exact_match(out, *overrides, examples):
    report = train("copying", overrides=[*overrides, *seeds(random_seed())], out=out, notify=str).report
    assert report.examples == examples
    return report.metrics["exact_match"]["value"]


def test_short_sequences_are_copied(tmp_path):
    assert exact_match(tmp_path / "run", *SHORT, examples=200) >= COPIED


FOUND = 0.97
"""Of the names of unseen sentences. Seven random seeds had at least 0.9978."""


def test_people_and_places_of_the_same_names_are_told_apart(tmp_path):
    settings = ["data.held_out=200", "training.evaluate_every=200", *seeds(random_seed())]
    report = train("names", overrides=settings, out=tmp_path / "run", notify=str).report
    assert report.metrics["entity_f1"]["value"] >= FOUND
    answer = load(tmp_path / "run").predict("Florence met Sydney in Paris .")
    assert answer.text == "B-PER O B-PER O B-LOC O"


KINDS, DEPTH = 3, 3
NEAR = 1.18
"""Perplexity over that of the generator, which no model beats but by luck.

Seven random seeds had 1.11 to 1.13: pieces begin within texts, where what is open cannot be known. Counts of
a bracket and the three before it have 1.22, of a bracket and the one before it 1.45.
"""


def test_brackets_are_closed_by_their_own(tmp_path):
    seed = random_seed()
    options = {"kinds": KINDS, "depth": DEPTH, "size": 5000, "seed": seed}
    settings = [
        *(f"data.{name}={value}" for name, value in options.items()),
        f"training.seed={seed}",
        "training.steps=250",
        "training.evaluate_every=250",
        "training.optimizer.lr=0.01",
        "model.max_length=64",
    ]
    report = train("brackets", overrides=settings, out=tmp_path / "run", notify=str).report
    best = perplexity(Brackets(**options).load(LanguageModelling().columns)["test"]["text"])
    assert report.metrics["perplexity"]["value"] <= NEAR * best
    answers = load(tmp_path / "run").predict(["([", "[(", "()[("])
    for answer, closing in zip(answers, ["])", ")]", ")]"], strict=True):
        assert answer.output.startswith(closing)


def perplexity(texts):
    """Returns the perplexity of texts under the generator's own probabilities, END of each a token, too."""
    total = 0.0
    for text in texts:
        opened = 0
        for place, bracket in enumerate(text):
            if bracket in "([{":
                choice = OPENED if opened else 1 - ENDED if place else 1
                total += log(choice / KINDS)
                opened += 1
            else:
                total += log(1 - OPENED) if opened < DEPTH else 0
                opened -= 1
        total += log(ENDED)
    return exp(-total / sum(len(text) + 1 for text in texts))
